//! Compiles the wire contract in `proto/` without `protoc`: protox reads the files, tonic writes the Rust.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let files = [
        "proto/probity/v1/drift.proto",
        "proto/probity/v1/engine.proto",
        "proto/probity/v1/rules.proto",
        "proto/probity/v1/audit.proto",
    ];
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(files, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // Served by gRPC reflection, so that a client without our .proto files can still call us.
    fs::write(out.join("descriptors.bin"), prost::Message::encode_to_vec(&descriptors))?;
    // JSON texts are slices of the received buffer, not copies.
    tonic_prost_build::configure().bytes(".probity.v1").compile_fds(descriptors)?;
    Ok(())
}
