//! The better behaviour at the points where the reference is wrong and no row says what is right.
