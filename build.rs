//! Tells the program how far it is optimised, so that it can say on a card what it lacks.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=KERNELS_OPT_LEVEL={}", std::env::var("OPT_LEVEL").unwrap_or_default());
}
