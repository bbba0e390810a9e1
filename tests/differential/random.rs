//! Random choices from a seed, the same on every machine.

use proptest::{
    prelude::Rng,
    test_runner::{RngAlgorithm, TestRng},
};

/// A source of choices.
pub struct Random(TestRng);

impl Random {
    /// The choices of a seed.
    pub fn new(seed: u64) -> Random {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Random(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        self.0.next_u32() % end
    }

    /// An index of a list of that length.
    pub fn index(&mut self, len: usize) -> usize {
        (self.0.next_u32() as usize) % len
    }

    /// True in that many of a hundred cases.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }
}
