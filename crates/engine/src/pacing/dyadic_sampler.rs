//! A long row of draws in which a reader finds its own without making those of others: what a block of numbers has
//! together is drawn first, and divided between halves until the number that is looked for is in a leaf. Each draw is a
//! function of its place, so all readers draw alike.

use std::fmt::Debug;

/// Leaves have 2 to the power of this many numbers, which are drawn together.
pub const LEAF: u32 = 5;

/// What is drawn of a row, and how that is divided.
pub trait Law {
    /// Blocks have 2 to the power of this many numbers: a reader draws the whole of each, its own numbers in it or not.
    const BLOCK: u32;

    /// What the numbers of a piece have together.
    type Share: Clone + Debug;

    /// Draws what the present block has, whose first number is `first`.
    fn whole(&self, first: u64) -> Self::Share;

    /// Leaves the present block behind, which has `share`.
    fn pass(&mut self, share: Self::Share);

    /// Divides what a piece has between its halves.
    fn halves(&self, piece: Piece<Self::Share>) -> (Self::Share, Self::Share);
}

/// Some numbers, one after the other: 2 to the power of `level` from `first` on.
#[derive(Clone, Debug)]
pub struct Piece<S> {
    /// The first number.
    pub first: u64,
    /// See above.
    pub level: u32,
    /// What they have together.
    pub share: S,
}

/// A row, and the place of a reader in it.
#[derive(Clone, Debug)]
pub struct DyadicSampler<L: Law> {
    law: L,
    block: u64,
    /// Pieces of the present block that may be asked for, the nearest last.
    pieces: Vec<Piece<L::Share>>,
}

impl<L: Law> DyadicSampler<L> {
    /// The reader is at the beginning.
    pub fn new(law: L) -> Self {
        Self { law, block: 0, pieces: Vec::new() }
    }

    /// The law of the row.
    pub fn law(&self) -> &L {
        &self.law
    }

    /// The leaf that holds `n`. Numbers must not descend from call to call by more than a block.
    pub fn leaf(&mut self, n: u64) -> Piece<L::Share> {
        while self.block < n >> L::BLOCK {
            let share = self.law.whole(self.block << L::BLOCK);
            self.law.pass(share);
            self.block += 1;
            self.pieces.clear();
        }
        let mut piece = loop {
            match self.pieces.pop() {
                Some(piece) if n < piece.first + (1 << piece.level) => break piece,
                Some(_) => {}
                // The block begins, or begins again for a number that descends.
                None => {
                    let first = self.block << L::BLOCK;
                    break Piece { first, level: L::BLOCK, share: self.law.whole(first) };
                }
            }
        };
        while piece.level > LEAF {
            let (first, level) = (piece.first, piece.level - 1);
            let middle = first + (1 << level);
            let (left, right) = self.law.halves(piece);
            let right = Piece { first: middle, level, share: right };
            piece = if n < middle {
                self.pieces.push(right);
                Piece { first, level, share: left }
            } else {
                right
            };
        }
        piece
    }
}
