//! Choices of a generator, taken from bytes.

/// A sequence of choices. When the bytes are used up, every further choice is the first one, so generators should have the plain case there.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    /// The choices that these bytes stand for.
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { bytes }
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                *first
            }
            None => 0,
        }
    }

    /// A number from 0 to `bound` - 1.
    pub fn below(&mut self, bound: usize) -> usize {
        let number = if bound <= 256 {
            usize::from(self.byte())
        } else {
            usize::from(self.byte()) << 8 | usize::from(self.byte())
        };
        number % bound.max(1)
    }

    /// Any number of 64 bits; small and large ones, and those near a power of two, as likely as others.
    pub fn number(&mut self) -> u64 {
        let shift = self.below(64);
        let number = match self.below(4) {
            0 => u64::from(self.byte()),
            1 => 1 << shift,
            2 => (1_u64 << shift).wrapping_sub(1),
            _ => (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte())),
        };
        if self.one_in(8) {
            number.wrapping_neg()
        } else {
            number
        }
    }

    /// True in one of `cases` choices, and false when the bytes are used up.
    pub fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == cases - 1
    }

    /// One item of `from`.
    pub fn pick<'b, T: ?Sized>(&mut self, from: &[&'b T]) -> &'b T {
        from[self.below(from.len())]
    }

    /// The first item, or in one of `cases` choices any item.
    pub fn mostly<'b, T: ?Sized>(&mut self, from: &[&'b T], cases: usize) -> &'b T {
        if self.one_in(cases) {
            self.pick(from)
        } else {
            from[0]
        }
    }

    /// Whether there are bytes left.
    pub fn is_over(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }
}

/// Changes up to three bytes of a finished input, to reach inputs that no generator makes.
pub(crate) fn spoil(input: &mut Vec<u8>, choices: &mut Choices<'_>) {
    const ODD: [u8; 16] = *b"\r\n\t \x00\x0b\x0c\x1b\x7f\x80\x85\xa0\xff:;,";
    for _ in 0..choices.below(4) {
        let at = choices.below(input.len() + 1);
        match choices.below(4) {
            0 => input.insert(at, ODD[choices.below(ODD.len())]),
            1 if at < input.len() => input[at] = ODD[choices.below(ODD.len())],
            2 if at < input.len() => drop(input.remove(at)),
            3 if at < input.len() => input[at] ^= 1 << choices.below(8),
            _ => input.insert(at, choices.byte()),
        }
    }
}
