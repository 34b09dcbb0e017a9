//! Being filled.
