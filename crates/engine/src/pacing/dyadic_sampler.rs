//! Random access to a long sequence of draws. The total of a block of numbers is drawn first, then split
//! between halves down to the leaf that contains the number. Each draw is a function of its position, so all
//! readers draw the same values.

use std::fmt::Debug;

/// Binary logarithm of a leaf's size. The numbers of a leaf are drawn together.
pub const LEAF: u32 = 5;

/// Distribution of the sequence, and how a total is split.
pub trait Law {
    /// Binary logarithm of a block's size. A reader draws the total of every block, even without numbers in
    /// it.
    const BLOCK: u32;

    /// Total of a piece.
    type Total: Clone + Debug;

    /// Draws the total of the current block. `first`: its first number.
    fn whole(&self, first: u64) -> Self::Total;

    /// Moves on to the next block. `total`: total of the block that it leaves.
    fn pass(&mut self, total: Self::Total);

    /// Splits the total of a piece between its first and its second half.
    fn halves(&self, piece: Piece<Self::Total>) -> (Self::Total, Self::Total);
}

/// Consecutive numbers: 2 to the power of `level`, starting with `first`.
#[derive(Clone, Debug)]
pub struct Piece<S> {
    /// The first number.
    pub first: u64,
    /// Binary logarithm of its size.
    pub level: u32,
    /// Its total.
    pub total: S,
}

/// A sequence, and a reader's position in it.
#[derive(Clone, Debug)]
pub struct DyadicSampler<L: Law> {
    law: L,
    block: u64,
    /// Pieces of the current block not read yet, the nearest last.
    pieces: Vec<Piece<L::Total>>,
}

impl<L: Law> DyadicSampler<L> {
    /// Creates a reader at the start of the sequence.
    pub fn new(law: L) -> Self {
        Self { law, block: 0, pieces: Vec::new() }
    }

    /// Returns the distribution of the sequence, in its state at the current block.
    pub fn law(&self) -> &L {
        &self.law
    }

    /// Returns the leaf that contains `n`, with its total. Each call must be for a later leaf than the previous call.
    pub fn leaf(&mut self, n: u64) -> Piece<L::Total> {
        while self.block < n >> L::BLOCK {
            let total = self.law.whole(self.block << L::BLOCK);
            self.law.pass(total);
            self.block += 1;
            self.pieces.clear();
        }
        let mut piece = loop {
            match self.pieces.pop() {
                Some(piece) if n < piece.first + (1 << piece.level) => break piece,
                Some(_) => {}
                // Start the block, or restart it for a smaller number.
                None => {
                    let first = self.block << L::BLOCK;
                    break Piece { first, level: L::BLOCK, total: self.law.whole(first) };
                }
            }
        };
        while piece.level > LEAF {
            let (first, level) = (piece.first, piece.level - 1);
            let middle = first + (1 << level);
            let (left, right) = self.law.halves(piece);
            let right = Piece { first: middle, level, total: right };
            piece = if n < middle {
                self.pieces.push(right);
                Piece { first, level, total: left }
            } else {
                right
            };
        }
        piece
    }
}
