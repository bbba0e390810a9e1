//! Rules that change while they are served: what the watch of the folder notices, and that a set is served whole or not
//! at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    ops::ControlFlow,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use probity::{
    audit::{Activation, Body, scan},
    config::Watch,
    engine::load_rules,
    grpc::wire::{GetStatusRequest, Mode, ObserveRequest, ObserveResponse, ReloadRequest},
};
use tokio::time::sleep;

use crate::{
    kill::{address, open_stopped},
    support::{House, connect, items, pays, request, write_pack},
};

/// The files of a change, each with one policy.
const FILES: usize = 4;
/// Much longer than anything here should take.
const BOUND: Duration = Duration::from_secs(60);

/// A number from the environment.
fn count(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |n| n.parse().unwrap())
}

/// Numbers that look random, the same each time.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

/// One policy that hits on every payment over 100 and says its round.
fn policy(n: usize, round: u64) -> String {
    format!(
        "policy P{n} \"p{n}\" {{\n  severity 1\n  on call pay\n  deny if args.amount > 100\n  message \"round {round}\"\n}}\n"
    )
}

fn file(pack: &Path, n: usize) -> PathBuf {
    pack.join(format!("policies/p{n}.policy"))
}

/// The pack `guard` of a round in a rules folder.
fn write_round(rules: &Path, round: u64) {
    write_pack(rules, "guard", "1.0.0", "# the policies are in files of their own\n");
    for n in 0..FILES {
        fs::write(file(&rules.join("guard"), n), policy(n, round)).unwrap();
    }
}

/// Writes beside and renames over, as careful editors do.
fn save_by_rename(path: &Path, text: &str) {
    let beside = path.with_extension("tmp~");
    fs::write(&beside, text).unwrap();
    fs::rename(&beside, path).unwrap();
}

/// Writes a part, then the rest.
fn save_in_place(path: &Path, text: &str) {
    let mut file = fs::File::create(path).unwrap();
    let (first, rest) = text.split_at(text.len() / 2);
    file.write_all(first.as_bytes()).unwrap();
    file.write_all(rest.as_bytes()).unwrap();
}

/// The digest of the one pack of a rules folder.
fn digest(rules: &Path) -> String {
    load_rules(rules).result.unwrap().get("guard").unwrap().digest().to_string()
}

/// A server over the four files, whose folder is watched: by hints alone unless changed.
async fn watched(change: impl FnOnce(&mut probity::config::Settings)) -> House {
    House::with(|settings| {
        write_round(settings.rules.path(), 0);
        settings.watch = Watch::On;
        settings.watch_poll = Duration::ZERO;
        settings.watch_settle = Duration::from_millis(200);
        change(settings);
    })
    .await
}

/// The digest of the served pack.
fn serves(house: &House) -> String {
    house.service().served().set.get("guard").unwrap().digest().to_string()
}

/// Waits until something is so; gives how long that took.
async fn until(what: &str, mut so: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < BOUND, "in vain: {what}");
        sleep(Duration::from_millis(10)).await;
    }
    began.elapsed()
}

/// Every digest of `guard` that the records of a house's store tell of.
fn recorded(house: &House) -> BTreeSet<String> {
    let store = open_stopped(&house.data.path().join("store"));
    let mut found = BTreeSet::new();
    scan(&store, 1, |record| {
        if let Body::Activated(Activation { pack, .. }) = record.body {
            found.insert(pack.digest.to_string());
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

/// A change of four files, one after the other with pauses. What is loaded ends as what is there, and nothing in between
/// was ever served: the records of a server tell every set that it served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_four_files_is_served_whole_or_not_at_all() {
    let rounds = count("PROBITY_RELOAD_ROUNDS", 20);
    // The defaults: the longest pause of a writer is 300 ms.
    let settle = Duration::from_millis(500);
    let mut house = watched(|settings| {
        settings.watch_settle = settle;
        settings.watch_poll = Duration::from_secs(5);
    })
    .await;
    let pack = house.rules.path().join("guard");
    let mut random = random(7);
    let (mut whole, mut slow, mut slowest) = (BTreeSet::from([serves(&house)]), 0, Duration::ZERO);
    for round in 1..=rounds {
        let (first, step) = (usize::try_from(random(4)).unwrap(), [1, 3][usize::try_from(random(2)).unwrap()]);
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        for turn in 0..FILES {
            let n = (first + turn * step) % FILES;
            let text = policy(n, round);
            match random(3) {
                0 => save_by_rename(&file(&pack, n), &text),
                _ => save_in_place(&file(&pack, n), &text),
            }
            if turn > 0 {
                longest = longest.max(last.elapsed());
            }
            last = Instant::now();
            if turn + 1 < FILES {
                sleep(Duration::from_millis(random(301))).await;
            }
        }
        let expected = digest(house.rules.path());
        slowest = slowest.max(until("the folder's digest is served", || serves(&house) == expected).await);
        whole.insert(expected);
        // A machine that was busy for so long made a pause of its own; then what stood in between was at rest.
        slow += u64::from(longest > settle - Duration::from_millis(50));
    }
    println!("{rounds} rounds, {slow} with a pause of the machine; at the latest {slowest:?} after the last file");
    house.stop().await;
    let mixed = recorded(&house).difference(&whole).count() as u64;
    assert!(mixed <= 3 * slow, "{mixed} mixed sets were served");
    assert!(slow < rounds.div_ceil(2), "the machine is too busy for this to say anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn good_then_bad_then_good_ends_good_and_the_bad_is_told_until_then() {
    let house = watched(|_| {}).await;
    let mut rules = house.rules_api().await;
    let (first, pack) = (serves(&house), house.rules.path().join("guard"));
    let status = async |rules: &mut probity::grpc::wire::rules_client::RulesClient<_>| {
        rules.get_status(GetStatusRequest {}).await.unwrap().into_inner()
    };
    fs::write(file(&pack, 1), "policy P1 { deny unless }").unwrap();
    let stale = house.service().stale();
    until("the bad set is refused", || stale.borrow().is_some()).await;
    let told = status(&mut rules).await;
    let refused = told.refused.unwrap();
    assert!(refused.rendered.contains("p1.policy") && refused.rendered.contains('^'), "{}", refused.rendered);
    assert_eq!((told.generation, serves(&house)), (1, first.clone()));
    let since = told.stale_since.unwrap();

    // Another bad one: stale since the first.
    fs::write(file(&pack, 2), "policy P2 {").unwrap();
    until("the second is refused", || {
        stale.borrow().as_ref().is_some_and(|s| s.refused.rendered.contains("p2.policy"))
    })
    .await;
    assert_eq!(status(&mut rules).await.stale_since, Some(since));

    // The first one again: nothing new is served, and nothing is stale.
    write_round(house.rules.path(), 0);
    until("the rules on disk are those that are served", || stale.borrow().is_none()).await;
    let told = status(&mut rules).await;
    assert_eq!((told.generation, told.refused, told.stale_since, serves(&house)), (1, None, None, first));

    fs::write(file(&pack, 1), "policy P1 {").unwrap();
    until("the third is refused", || stale.borrow().is_some()).await;
    write_round(house.rules.path(), 1);
    let expected = digest(house.rules.path());
    until("the good set is served", || serves(&house) == expected).await;
    let told = status(&mut rules).await;
    assert_eq!((told.generation, told.refused, told.stale_since), (2, None, None));
}

/// Changes a rules folder to a round in some way; the folder was made at round 0.
type Change = fn(&Path, u64);

/// Ways to save, with hints alone: nothing is polled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_rules_are_saved_they_are_served() {
    let ways: [(&str, Change); 7] = [
        ("written in place", |rules, round| write_round(rules, round)),
        ("renamed over", |rules, round| {
            (0..FILES).for_each(|n| save_by_rename(&file(&rules.join("guard"), n), &policy(n, round)));
        }),
        ("the old one kept under another name, as vim does", |rules, round| {
            for n in 0..FILES {
                let path = file(&rules.join("guard"), n);
                fs::rename(&path, path.with_extension("policy.md")).unwrap();
                fs::write(&path, policy(n, round)).unwrap();
            }
        }),
        ("the pack's folder deleted and made again", |rules, round| {
            fs::remove_dir_all(rules.join("guard")).unwrap();
            write_round(rules, round);
        }),
        ("the pack's folder renamed over", |rules, round| {
            let beside = rules.parent().unwrap().join("beside");
            write_round(&beside, round);
            fs::rename(rules.join("guard"), rules.parent().unwrap().join("old")).unwrap();
            fs::rename(beside.join("guard"), rules.join("guard")).unwrap();
            fs::remove_dir_all(rules.parent().unwrap().join("old")).unwrap();
        }),
        ("the rules folder deleted and made again", |rules, round| {
            fs::remove_dir_all(rules).unwrap();
            write_round(rules, round);
        }),
        ("the rules folder renamed over", |rules, round| {
            let (new, old) = (rules.with_file_name("new"), rules.with_file_name("old"));
            write_round(&new, round);
            fs::rename(rules, &old).unwrap();
            fs::rename(&new, rules).unwrap();
            fs::remove_dir_all(&old).unwrap();
        }),
    ];
    let base = tempfile::tempdir().unwrap();
    let rules = base.path().join("rules");
    write_round(&rules, 0);
    let house = watched(|settings| settings.rules = rules.clone().into()).await;
    let mut round = 0;
    // Twice: the watch outlasts each of them.
    for (how, change) in ways.iter().chain(&ways) {
        round += 1;
        change(&rules, round);
        let expected = digest(&rules);
        let took = until(how, || serves(&house) == expected).await;
        println!("{how}: {took:?}");
    }
}

/// Files that are reached through links, and links that are swapped, as Kubernetes and deployments do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_are_swapped_are_followed() {
    let base = tempfile::tempdir().unwrap();
    let swap = |link: &Path, target: &str| {
        let beside = link.with_file_name("..tmp");
        symlink(target, &beside).unwrap();
        fs::rename(&beside, link).unwrap();
    };
    // A mounted volume: `guard` leads to `..data/guard`, and `..data` to a folder with a name of its own.
    let volume = base.path().join("volume");
    write_round(&volume.join("..v0"), 0);
    symlink("..v0", volume.join("..data")).unwrap();
    symlink("..data/guard", volume.join("guard")).unwrap();
    let house = watched(|settings| settings.rules = volume.clone().into()).await;
    for round in 1..4 {
        write_round(&volume.join(format!("..v{round}")), round);
        swap(&volume.join("..data"), &format!("..v{round}"));
        fs::remove_dir_all(volume.join(format!("..v{}", round - 1))).unwrap();
        let expected = digest(&volume);
        let took = until("the volume's new content is served", || serves(&house) == expected).await;
        println!("..data: {took:?}");
    }
    // A deployment: a link above the rules folder.
    let (releases, current) = (base.path().join("releases"), base.path().join("current"));
    write_round(&releases.join("0/rules"), 0);
    symlink("releases/0", &current).unwrap();
    let house = watched(|settings| settings.rules = current.join("rules").into()).await;
    for round in 1..4 {
        write_round(&releases.join(format!("{round}/rules")), round);
        swap(&current, &format!("releases/{round}"));
        let expected = digest(&current.join("rules"));
        let took = until("the new release is served", || serves(&house) == expected).await;
        println!("release: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polling_alone_finds_what_changed() {
    let house = watched(|settings| {
        settings.watch = Watch::Poll;
        settings.watch_poll = Duration::from_millis(100);
    })
    .await;
    for round in 1..4 {
        write_round(house.rules.path(), round);
        let expected = digest(house.rules.path());
        until("the change is served", || serves(&house) == expected).await;
    }
    assert_eq!(house.service().served().generation, 4, "each change once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_that_are_refused_for_too_long_take_the_service_out_until_they_are_fixed() {
    let house = watched(|settings| settings.max_staleness = Duration::from_millis(300)).await;
    let fresh = "probity.v1.Rules/fresh";
    let health = async |service: &str, wanted: i32| {
        let began = Instant::now();
        while crate::manners::health(&house, service).await != wanted {
            assert!(began.elapsed() < BOUND, "in vain: {service:?} is {wanted}");
            sleep(Duration::from_millis(10)).await;
        }
    };
    health(fresh, crate::manners::SERVING).await;
    fs::write(file(&house.rules.path().join("guard"), 0), "policy P0 {").unwrap();
    health(fresh, crate::manners::NOT_SERVING).await;
    for service in ["", "probity.v1.PolicyEngine", "probity.v1.Rules", "probity.v1.Audit"] {
        health(service, crate::manners::NOT_SERVING).await;
    }
    // It is out of rotation, and answers whoever still asks.
    house.engine().await.observe(request("s", items(0, [pays(&[500])]))).await.unwrap();
    write_round(house.rules.path(), 1);
    for service in ["", "probity.v1.PolicyEngine", fresh] {
        health(service, crate::manners::SERVING).await;
    }
}

/// The rounds that an answer's hits speak of.
fn rounds(answer: &ObserveResponse) -> BTreeSet<String> {
    answer.results.iter().flat_map(|r| &r.hits).map(|h| h.message.clone()).collect()
}

/// Reloads all the time under callers: no call fails, and each answer is that of one set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_under_load_fail_no_call_and_mix_no_answer() {
    let seconds = count("PROBITY_RELOAD_SECONDS", 4);
    let house = House::with(|settings| {
        write_round(settings.rules.path(), 0);
        // A caller that is held up for a while must not find its episode ended for that.
        settings.max_generations = 100;
    })
    .await;
    let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut callers = Vec::new();
    for caller in 0..4 {
        let (mut engine, over, calls) = (house.engine().await, over.clone(), calls.clone());
        callers.push(tokio::spawn(async move {
            let mut seen: BTreeMap<String, String> = BTreeMap::new();
            for n in 0u64.. {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                let session = format!("caller-{caller}-{n}");
                let mut digest = None;
                // The second request of a session may come after a reload: an episode is judged by the set of the first,
                // a gate by the new one, and says so.
                let mode = if n % 2 == 0 { Mode::Episode } else { Mode::Gate };
                for seq in 0..2 {
                    let ask = request(&session, items(seq, [pays(&[500])]));
                    let ask = ObserveRequest { mode: mode.into(), ..ask };
                    let answer = engine.observe(ask).await.unwrap().into_inner();
                    calls.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(answer.results[0].hits.len(), FILES);
                    let rounds = rounds(&answer);
                    assert_eq!(rounds.len(), 1, "an answer of several sets: {rounds:?}");
                    let round = rounds.first().unwrap().clone();
                    assert_eq!(*seen.entry(answer.pack_digest.clone()).or_insert(round.clone()), round);
                    let before = digest.replace(answer.pack_digest.clone()).unwrap_or(answer.pack_digest.clone());
                    let moved = if before == answer.pack_digest { String::new() } else { before };
                    assert_eq!(answer.previous_pack_digest, moved);
                    assert!(mode == Mode::Gate || moved.is_empty(), "an episode keeps its rules");
                }
            }
            seen
        }));
    }
    let mut rules = house.rules_api().await;
    let mut expected = BTreeMap::from([(serves(&house), "round 0".to_owned())]);
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let began = Instant::now();
    let mut generation = 1;
    while began.elapsed() < Duration::from_secs(seconds) {
        ticks.tick().await;
        write_round(house.rules.path(), generation);
        let loaded = rules.reload(ReloadRequest::default()).await.unwrap().into_inner();
        assert_eq!(loaded.generation, generation + 1);
        expected.insert(loaded.packs[0].digest.clone(), format!("round {generation}"));
        generation += 1;
    }
    over.store(true, Ordering::SeqCst);
    let mut sets = BTreeSet::new();
    for caller in callers {
        for (digest, round) in caller.await.unwrap() {
            assert_eq!(expected.get(&digest), Some(&round));
            sets.insert(digest);
        }
    }
    println!("{} calls, {} reloads, answers of {} sets", calls.load(Ordering::SeqCst), generation - 1, sets.len());
    assert!(sets.len() > 1, "the callers saw reloads");
}

/// What a process holds: resident memory in KiB, threads, open file descriptors.
fn holds(child: &Child) -> [u64; 3] {
    let proc = PathBuf::from(format!("/proc/{}", child.id()));
    let pages: u64 = fs::read_to_string(proc.join("statm")).unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let of = |folder: &str| fs::read_dir(proc.join(folder)).unwrap().count() as u64;
    [pages * 4, of("task"), of("fd")]
}

/// Ends the process whatever becomes of the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Many reloads of a large pack: memory, threads and file descriptors stay as they are.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn many_reloads_leave_nothing_behind() {
    let reloads = count("PROBITY_RELOADS", 60);
    let (rules, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let policies: Vec<String> = (1..500).map(|n| policy(n, 0)).collect();
    write_pack(rules.path(), "guard", "1.0.0", &policies.concat());
    let changing = file(&rules.path().join("guard"), 0);
    fs::write(&changing, policy(0, 0)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_probity"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--rules"]).arg(rules.path());
    command.arg("--data").arg(data.path().join("store"));
    let mut server = Server(command.stdout(Stdio::piped()).spawn().unwrap());
    let channel = connect(&address(&mut server.0)).await;
    let mut client = probity::grpc::wire::rules_client::RulesClient::new(channel);
    let mut held = Vec::new();
    for n in 1..=reloads {
        save_by_rename(&changing, &policy(0, n));
        // The watch may have been faster.
        client.reload(ReloadRequest::default()).await.unwrap();
        held.push(holds(&server.0));
    }
    let status = client.get_status(GetStatusRequest {}).await.unwrap().into_inner();
    assert_eq!(status.generation, reloads + 1);
    // The first third is for caches to fill and for allocators to find their size.
    let third = held.len() / 3;
    let most = |of: &[[u64; 3]]| [0, 1, 2].map(|what| of.iter().map(|h| h[what]).max().unwrap());
    let (before, after) = (most(&held[third..2 * third]), most(&held[2 * third..]));
    println!("{reloads} reloads: KiB, threads, descriptors at first {:?}, then {before:?}, at last {after:?}", held[0]);
    assert!(after[0] < before[0] + before[0] / 4 + 8 * 1024, "memory grows: {before:?}, {after:?}");
    assert!(after[1] <= before[1] + 2 && after[2] <= before[2] + 2, "threads or files are left: {before:?}, {after:?}");
}
