//! The `probity` program.

fn main() -> std::process::ExitCode {
    probity::cli::main()
}
