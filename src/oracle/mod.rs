//! What an operation should give, in double precision.
