//! Arithmetic over named sizes: `2 * rows * width * size(T)`.

/// An expression of `kernel.toml`.
#[derive(Clone, Debug)]
pub struct Formula {
    /// As written.
    pub text: String,
}
