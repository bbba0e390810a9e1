//! Random traces: few tools, ids and values, and everything that can be wrong with a message.

use super::{generate::TOOLS, random::Random};

/// The messages of a trace, each as JSON text.
pub fn trace(random: &mut Random) -> Vec<String> {
    let length = if random.chance(10) { 30 + random.below(50) } else { 4 + random.below(24) };
    let timed = random.chance(70);
    let mut now = 0i64;
    let mut open: Vec<&str> = Vec::new();
    (0..length)
        .map(|_| {
            now += i64::from(random.below(6));
            // Now and then a clock that goes back, or none.
            let time = match random.below(12) {
                _ if !timed => String::new(),
                0 => String::new(),
                1 => format!(", \"time\": {}", now - 4),
                _ => format!(", \"time\": {now}"),
            };
            match random.below(20) {
                0..3 => format!("{{\"role\": \"user\", \"content\": {}{time}}}", text(random)),
                3 => format!("{{\"role\": \"system\", \"content\": {}{time}}}", text(random)),
                4..9 if !open.is_empty() => result(random, &mut open, &time),
                _ => assistant(random, &mut open, &time),
            }
        })
        .collect()
}

fn text(random: &mut Random) -> &'static str {
    ["\"yes\"", "\"no\"", "\"x\"", "\"y 1\"", "\"\"", "null", "\"x 1 yes\"", "\"Acct-1\"", "\"y 10.0.0.1\""]
        [random.index(9)]
}

fn assistant(random: &mut Random, open: &mut Vec<&'static str>, time: &str) -> String {
    let calls: Vec<String> = (0..[0, 1, 1, 1, 1, 2, 2, 3][random.index(8)])
        .map(|_| {
            let id = ["c0", "c1", "c2"][random.index(3)];
            open.push(id);
            let arguments = match random.below(40) {
                0 => "\"{\"".to_owned(),
                1 => "[]".to_owned(),
                _ => object(random),
            };
            let tool = TOOLS[random.index(3)];
            let id = if random.chance(97) { format!("\"id\": \"{id}\", ") } else { String::new() };
            format!("{{{id}\"function\": {{\"name\": \"{tool}\", \"arguments\": {arguments}}}}}")
        })
        .collect();
    let calls = if calls.is_empty() { String::new() } else { format!(", \"tool_calls\": [{}]", calls.join(", ")) };
    format!("{{\"role\": \"assistant\", \"content\": {}{calls}{time}}}", text(random))
}

fn result(random: &mut Random, open: &mut Vec<&'static str>, time: &str) -> String {
    let id = match random.below(25) {
        0 => "zz",
        _ if open.is_empty() => "c0",
        _ => open.remove(random.index(open.len())),
    };
    let content = match random.below(8) {
        0 => "\"Error: no\"".to_owned(),
        1 => ["\"done x 1\"", "\"say acct 1\""][random.index(2)].to_owned(),
        2 => "\"[1]\"".to_owned(),
        _ => serde_json::to_string(&object(random)).unwrap(),
    };
    format!("{{\"role\": \"tool\", \"tool_call_id\": \"{id}\", \"content\": {content}{time}}}")
}

/// Fields `a` and `b` (scalars), `n` (a number), `l` (a list), `m` (a list of objects), `o` (an
/// object), each missing or of another type now and then.
fn object(random: &mut Random) -> String {
    let mut fields = Vec::new();
    if random.chance(96) {
        fields.push(format!("\"a\": {}", scalar(random)));
    }
    if random.chance(85) {
        fields.push(format!("\"b\": {}", scalar(random)));
    }
    if random.chance(85) {
        fields.push(format!("\"n\": {}", number(random)));
    }
    if random.chance(85) {
        let items: Vec<&str> = (0..random.below(4)).map(|_| scalar(random)).collect();
        fields.push(if random.chance(90) {
            format!("\"l\": [{}]", items.join(", "))
        } else {
            "\"l\": \"x\"".to_owned()
        });
    }
    if random.chance(85) {
        let items: Vec<String> = (0..random.below(3)).map(|_| flat(random)).collect();
        fields.push(format!("\"m\": [{}]", items.join(", ")));
    }
    if random.chance(85) {
        fields.push(format!("\"o\": {}", flat(random)));
    }
    format!("{{{}}}", fields.join(", "))
}

fn flat(random: &mut Random) -> String {
    let mut fields = Vec::new();
    if random.chance(85) {
        fields.push(format!("\"a\": {}", scalar(random)));
    }
    if random.chance(85) {
        fields.push(format!("\"n\": {}", number(random)));
    }
    if random.chance(7) { scalar(random).to_owned() } else { format!("{{{}}}", fields.join(", ")) }
}

fn scalar(random: &mut Random) -> &'static str {
    const SCALARS: [&str; 17] = [
        "\"x\"",
        "\"x\"",
        "\"x\"",
        "\"x\"",
        "\"y\"",
        "\"y\"",
        "\"y\"",
        "\"z\"",
        "1",
        "1",
        "1.0",
        "null",
        "\"\"",
        "true",
        "\"acct 1\"",
        "\"to acct: 1\"",
        "\"\\u0061cct.1\"",
    ];
    SCALARS[random.index(SCALARS.len())]
}

fn number(random: &mut Random) -> &'static str {
    const ODD: [&str; 6] = ["\"1\"", "null", "1e2", "-1", "0.5", "100000000000000000000000000000000000000.5"];
    if random.chance(10) { ODD[random.index(6)] } else { ["0", "1", "1", "2", "1.0", "3"][random.index(6)] }
}
