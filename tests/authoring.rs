//! Commands for authors, as scripts see them: formatting files, and versions of packs in git.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

mod command;

use std::{fs, path::Path, process::Command};

use command::{Ran, probity};

const POLICY: &str = "policy P1 \"no large payments\" {\n  severity 1\n  on call pay\n  deny if args.amount > 100\n}\n";
const UNTIDY: &str = "policy  P1 \"no large payments\" { severity 1 on call pay # why\n deny if args.amount>100 }";

fn run(arguments: &[&str], input: &str) -> Ran {
    probity(arguments, input)
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

// ---- fmt ----

#[test]
fn files_are_formatted_in_place_and_check_names_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    write(folder.path(), "desk/policies/tidy.policy", POLICY);
    write(folder.path(), "desk/policies/untidy.policy", UNTIDY);
    write(folder.path(), "desk/pack.yaml", "name:    desk\n");
    write(folder.path(), ".hidden/x.policy", UNTIDY);
    let untidy = folder.path().join("desk/policies/untidy.policy");
    let ran = run(&["fmt", "--check", path], "");
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains("untidy.policy") && ran.out.contains("2 files, 1 not formatted"), "{}", ran.out);
    assert_eq!(fs::read_to_string(&untidy).unwrap(), UNTIDY, "looking changes nothing");

    let ran = run(&["fmt", path, "--format", "json"], "");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(ran.lines()[0]["changed"].as_array().unwrap().len(), 1);
    let expected = POLICY.replace("on call pay", "on call pay  # why");
    assert_eq!(fs::read_to_string(&untidy).unwrap(), expected);
    assert_eq!(fs::read_to_string(folder.path().join("desk/pack.yaml")).unwrap(), "name:    desk\n");
    assert_eq!(fs::read_to_string(folder.path().join(".hidden/x.policy")).unwrap(), UNTIDY);
    assert_eq!(run(&["fmt", "--check", path], "").code, 0);
    // Nothing of the writing is left behind.
    assert_eq!(fs::read_dir(folder.path().join("desk/policies")).unwrap().count(), 2);
}

#[test]
fn standard_input_is_formatted_to_standard_output() {
    let ran = run(&["fmt", "-"], UNTIDY);
    assert_eq!((ran.code, ran.out), (0, POLICY.replace("on call pay", "on call pay  # why")));
    assert_eq!(run(&["fmt", "--check", "-"], UNTIDY).code, 1);
    assert_eq!(run(&["fmt", "--check", "-"], POLICY).code, 0);
    let ran = run(&["fmt", "-"], "policy P1 {");
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("P0201"), "{}", ran.err);
    assert_eq!(run(&["fmt", "-", "rules"], "").code, 2);
}

#[test]
fn a_file_that_cannot_be_read_is_left_alone_and_the_others_are_not() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.policy", "policy P1 \"x\" {   severity\n");
    write(folder.path(), "b.policy", UNTIDY);
    let ran = run(&["fmt", folder.path().to_str().unwrap()], "");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("P0201") && ran.err.contains("a.policy"), "{}", ran.err);
    assert_eq!(fs::read_to_string(folder.path().join("a.policy")).unwrap(), "policy P1 \"x\" {   severity\n");
    assert_ne!(fs::read_to_string(folder.path().join("b.policy")).unwrap(), UNTIDY);
    assert_eq!(run(&["fmt", "Cargo.toml"], "").code, 2);
    assert_eq!(run(&["fmt", "/missing"], "").code, 2);
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_so_do_permissions() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "real.policy", UNTIDY);
    let (real, link) = (folder.path().join("real.policy"), folder.path().join("link.policy"));
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real.policy", &link).unwrap();
    assert_eq!(run(&["fmt", link.to_str().unwrap()], "").code, 0);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_ne!(fs::read_to_string(&real).unwrap(), UNTIDY);
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o640);
}

// ---- versions ----

/// A repository with a pack that has a policy and a probe library, committed and tagged `v1`.
struct Repository(tempfile::TempDir);

impl Repository {
    fn new() -> Repository {
        let repository = Repository(tempfile::tempdir().unwrap());
        repository.git(&["init", "--quiet"]);
        repository.write("pack.yaml", "name: desk\nversion: 1.4.2\nformat: 1\n");
        repository.write("policies/p.policy", POLICY);
        for name in ["keywords.yaml", "probes.yaml", "scoring.yaml"] {
            repository.write(name, &fs::read_to_string(format!("rules/default/{name}")).unwrap());
        }
        repository.git(&["add", "."]);
        repository.git(&["commit", "--quiet", "-m", "one"]);
        repository.git(&["tag", "v1"]);
        repository
    }

    fn git(&self, arguments: &[&str]) {
        let ran = Command::new("git")
            .current_dir(self.0.path())
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    fn write(&self, name: &str, text: &str) {
        write(&self.0.path().join("rules/desk"), name, text);
    }

    fn replace(&self, name: &str, from: &str, to: &str) {
        let path = self.0.path().join("rules/desk").join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    }

    fn rules(&self) -> String {
        self.0.path().join("rules").display().to_string()
    }

    /// The codes of the errors that `check --against git:v1` tells.
    fn errors(&self) -> Vec<String> {
        let ran = run(&["check", &self.rules(), "--against", "git:v1", "--format", "json"], "");
        let report = &ran.lines()[0];
        let found = report["diagnostics"].as_array().unwrap().iter().filter(|d| d["severity"] == "error");
        let codes: Vec<String> = found.map(|d| d["code"].as_str().unwrap().to_owned()).collect();
        assert_eq!(ran.code, i32::from(!codes.is_empty()), "{}", ran.out);
        codes
    }
}

#[test]
fn another_meaning_wants_another_version() {
    let repository = Repository::new();
    assert_eq!(repository.errors(), [""; 0]);
    // Layout and comments are no meaning.
    repository.write("policies/p.policy", UNTIDY);
    assert_eq!(repository.errors(), [""; 0]);
    repository.write("policies/p.policy", &POLICY.replace("100", "99"));
    assert_eq!(repository.errors(), ["P0601"]);
    for (version, expected) in [("1.4.1", vec!["P0602"]), ("1.4.3", vec![]), ("2.0.0", vec![])] {
        repository.write("pack.yaml", &format!("name: desk\nversion: {version}\nformat: 1\n"));
        assert_eq!(repository.errors(), expected, "{version}");
    }
}

#[test]
fn other_probes_want_a_minor_version_and_a_library_of_their_own() {
    let repository = Repository::new();
    repository.replace("probes.yaml", "a title does not change that", "nothing changes that");
    assert_eq!(repository.errors(), ["P0601", "P0603"]);
    repository.replace("probes.yaml", "version: 1.0.0", "version: 1.1.0");
    assert_eq!(repository.errors(), ["P0601"]);
    repository.write("pack.yaml", "name: desk\nversion: 1.4.3\nformat: 1\n");
    assert_eq!(repository.errors(), ["P0602"]);
    repository.write("pack.yaml", "name: desk\nversion: 1.5.0\nformat: 1\n");
    assert_eq!(repository.errors(), [""; 0]);
}

#[test]
fn versions_in_git_are_compared_with_folders() {
    let repository = Repository::new();
    repository.replace("policies/p.policy", "100", "99");
    let (rules, desk) = (repository.rules(), format!("{}/desk", repository.rules()));
    // A folder of packs, and the pack itself.
    for folder in [&rules, &desk] {
        let ran = run(&["diff", &format!("git:v1:{folder}"), folder], "");
        assert_eq!(ran.code, 0, "{}", ran.err);
        for words in
            ["desk 1.4.2: another meaning", "~ P1", "- deny if args.amount > 100", "+ deny if args.amount > 99"]
        {
            assert!(ran.out.contains(words), "{words}\n{}", ran.out);
        }
    }
    let ran = run(&["diff", &format!("git:v1:{rules}"), &format!("git:HEAD:{rules}")], "");
    assert!(ran.out.contains("no difference"), "{}", ran.out);
    for wrong in ["git:v9:".to_owned() + &rules, "git:v1".to_owned(), format!("git:v1:{rules}/other")] {
        let ran = run(&["diff", &wrong, &rules], "");
        assert_eq!(ran.code, 2, "{wrong}: {}", ran.out);
        assert!(!ran.err.is_empty());
    }
    // A pack that is new has nothing to be held to, and one that is gone is told.
    fs::rename(&desk, format!("{rules}/other")).unwrap();
    write(Path::new(&rules), "other/pack.yaml", "name: other\nversion: 1.0.0\nformat: 1\n");
    write(Path::new(&rules), "third/pack.yaml", "name: third\nversion: 1.0.0\nformat: 1\n");
    assert_eq!(repository.errors(), [""; 0]);
    let ran = run(&["diff", &format!("git:v1:{rules}"), &rules], "");
    assert!(ran.out.contains("+ other") && ran.out.contains("+ third") && ran.out.contains("- desk"), "{}", ran.out);
}

#[test]
fn rules_at_a_commit_are_rules() {
    let repository = Repository::new();
    let at = |reference: &str| format!("git:{}@{reference}:rules", repository.0.path().display());
    for command in [vec!["check"], vec!["test"], vec!["replay", "/dev/null", "--rules"]] {
        let place = at("v1");
        let arguments = [command.as_slice(), &[place.as_str()]].concat();
        let ran = run(&arguments, "");
        assert_eq!(ran.code, 0, "{command:?}: {}{}", ran.out, ran.err);
    }
    let ran = run(&["check", &at("v9")], "");
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.out.contains("git knows no commit `v9`"), "{}", ran.out);
    let ran = run(&["check", "git:v1"], "");
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("git:REPOSITORY@REF:FOLDER"), "{}", ran.err);
}

#[test]
fn packs_that_extend_others_are_found_with_them_at_a_commit() {
    let repository = Repository::new();
    let heir = |version: &str| {
        let manifest = format!("name: heir\nversion: {version}\nformat: 1\nextends: [desk]\n");
        write(Path::new(&repository.rules()), "heir/pack.yaml", &manifest);
    };
    heir("0.1.0");
    // What stands beside the packs is not looked at.
    std::os::unix::fs::symlink("/etc/passwd", Path::new(&repository.rules()).join("link")).unwrap();
    repository.git(&["add", "."]);
    repository.git(&["commit", "--quiet", "-m", "two"]);
    repository.git(&["tag", "v2"]);
    let folder = format!("{}/heir", repository.rules());
    let against = || {
        let ran = run(&["check", &folder, "--against", "git:v2", "--format", "json"], "");
        assert!(ran.code < 2, "{}", ran.err);
        let found = ran.lines()[0]["diagnostics"].as_array().unwrap().clone();
        found.iter().map(|d| format!("{} {}", d["code"].as_str().unwrap(), d["file"])).collect::<Vec<_>>()
    };
    assert_eq!(against(), [""; 0]);
    // A changed base is another meaning of what extends it, and that wants a version of its own.
    repository.write("policies/p.policy", &POLICY.replace("100", "99"));
    assert_eq!(against(), [format!("P0601 \"{folder}/pack.yaml\"")]);
    heir("0.1.1");
    assert_eq!(against(), [""; 0]);
    let ran = run(&["diff", &format!("git:v2:{folder}"), &folder], "");
    assert!(ran.out.contains("heir 0.1.0 -> 0.1.1: another meaning") && ran.out.contains("~ P1"), "{}", ran.out);
    let ran = run(&["explain", &folder], "");
    assert!(ran.out.contains("from desk 1.4.2: P1"), "{}", ran.out);
    // From inside the folder it is the same pack.
    let ran = Command::new(env!("CARGO_BIN_EXE_probity")).current_dir(&folder).args(["check", "."]).output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success() && told.starts_with("heir 0.1.1  1 policy"), "{told}");
}
