//! The report as JUnit's XML: a suite for each pack, a case for each test.

use std::fmt::Write as _;

use super::{Report, Test, Tested};

/// The whole document.
pub(super) fn xml(report: &Report) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let tests = report.passed + report.failed;
    // Writing to a String cannot fail.
    let _ = writeln!(out, "<testsuites name=\"probity\" tests=\"{tests}\" failures=\"{}\">", report.failed);
    for Tested { pack, version, tests, .. } in &report.packs {
        let failed = tests.iter().filter(|test| !test.passed).count();
        let name = escaped(&format!("{pack} {version}"));
        let _ = writeln!(out, "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failed}\">", tests.len());
        for Test { name, faults, .. } in tests {
            let head = format!("    <testcase classname=\"{}\" name=\"{}\"", escaped(pack), escaped(name));
            let _ = match faults.first() {
                None => writeln!(out, "{head}/>"),
                Some(first) => writeln!(
                    out,
                    "{head}>\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
                    escaped(first),
                    escaped(&faults.join("\n"))
                ),
            };
        }
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

/// Text as XML 1.0 takes it; characters that it has no form for are left out.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // In an attribute a line break would be read as a blank.
            '\n' | '\t' => out.push_str(&format!("&#{};", u32::from(c))),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_a_failure_of_its_case() {
        let test = |name: &str, faults: &[&str]| Test {
            name: name.to_owned(),
            passed: faults.is_empty(),
            faults: faults.iter().map(|fault| (*fault).to_owned()).collect(),
        };
        let tested = Tested {
            pack: "desk".to_owned(),
            version: "1.0.0".to_owned(),
            tests: vec![test("a & b", &[]), test("c", &["P1 < 2 \"x\"", "P2\u{1}"])],
            never_fired: Vec::new(),
            never_asked: Vec::new(),
            coverage: None,
        };
        let expected = "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites name=\"probity\" tests=\"2\" failures=\"1\">
  <testsuite name=\"desk 1.0.0\" tests=\"2\" failures=\"1\">
    <testcase classname=\"desk\" name=\"a &amp; b\"/>
    <testcase classname=\"desk\" name=\"c\">
      <failure message=\"P1 &lt; 2 &quot;x&quot;\">P1 &lt; 2 &quot;x&quot;&#10;P2</failure>
    </testcase>
  </testsuite>
</testsuites>
";
        assert_eq!(xml(&Report { passed: 1, failed: 1, packs: vec![tested] }), expected);
    }
}
