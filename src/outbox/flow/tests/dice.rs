//! Random numbers from a seed: fast without optimisation, the same on every machine.

/// SplitMix64.
#[derive(Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `sides`, which is at least 1.
    pub(super) fn below(&mut self, sides: usize) -> usize {
        let sides = u64::try_from(sides).expect("a usize fits");
        usize::try_from(self.next() % sides).expect("it is below a usize")
    }

    pub(super) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub(super) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// In `0.0..1.0`.
    pub(super) fn fraction(&mut self) -> f64 {
        f64::from(u16::try_from(self.below(1 << 16)).expect("16 bits")) / f64::from(1 << 16)
    }
}
