//! Splitting: blocks of bytes, cut anywhere, become lines that share the blocks' memory.
//!
//! Holds throughout: the pieces, joined in order, are exactly the bytes that came in; no more than
//! one line's bound is held back. Only a line that crosses a block's end is copied.

use bytes::{Bytes, BytesMut};

/// Most bytes of one piece of a line that is too long to be a request.
pub(crate) const PIECE_BYTES_MAX: usize = 1 << 20;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// What the bytes of a file fall into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A byte order mark at the very beginning: before line 1, and no part of it.
    Mark(Bytes),
    /// A whole line with its ending, if it has one.
    Line {
        /// The number of the line in the file, from 1.
        line: u64,
        /// The exact bytes.
        raw: Bytes,
    },
    /// A part of a line that is too long to be held.
    Part {
        /// The number of the line in the file, from 1.
        line: u64,
        /// At most [`PIECE_BYTES_MAX`] bytes.
        raw: Bytes,
        /// Whether it is the first part.
        first: bool,
    },
}

/// Something that cuts blocks into pieces.
pub(crate) trait Cut {
    /// Lines that were read to their end.
    fn lines(&self) -> u64;

    /// Takes the next block and gives out every piece that is complete.
    fn push<E>(
        &mut self,
        block: Bytes,
        give: &mut dyn FnMut(Piece) -> Result<(), E>,
    ) -> Result<(), E>;

    /// Gives out what is left.
    fn finish<E>(&mut self, give: &mut dyn FnMut(Piece) -> Result<(), E>) -> Result<(), E>;
}

/// Parts the byte order mark from the beginning of a file; none while `held` and `block` are too short to
/// tell. Then `held` keeps them.
pub(crate) fn take_mark(held: &mut BytesMut, block: &[u8]) -> Option<(Option<Bytes>, Bytes)> {
    held.extend_from_slice(block);
    if held.len() < BOM.len() && BOM.starts_with(held) {
        return None;
    }
    let mut block = held.split().freeze();
    let mark = block.starts_with(BOM).then(|| block.split_to(BOM.len()));
    Some((mark, block))
}

/// Cuts blocks into pieces.
#[derive(Debug)]
pub(crate) struct Splitter {
    line_bytes_max: usize,
    /// The number of the line that is being read.
    line: u64,
    /// What has been read of it and not yet given out.
    tail: BytesMut,
    at_start: bool,
    /// Parts of the line that is being read were already given out.
    overlong: bool,
}

impl Splitter {
    pub(crate) fn new(line_bytes_max: usize) -> Self {
        let tail = BytesMut::new();
        Self { line_bytes_max, line: 1, tail, at_start: true, overlong: false }
    }

    /// Lines that were read to their end.
    pub(crate) fn lines(&self) -> u64 {
        self.line - 1
    }

    /// Takes the next block and gives out every piece that is complete.
    pub(crate) fn push<E>(
        &mut self,
        mut block: Bytes,
        give: &mut impl FnMut(Piece) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.at_start {
            // The mark itself may be cut by the end of the first block.
            self.tail.extend_from_slice(&block);
            if self.tail.len() < BOM.len() && BOM.starts_with(&self.tail) {
                return Ok(());
            }
            block = self.start(give)?;
        }
        let mut from = 0;
        for newline in memchr::memchr_iter(b'\n', &block) {
            let rest = block.slice(from..=newline);
            from = newline + 1;
            self.end_line(rest, give)?;
        }
        self.hold_back(block.slice(from..), give)
    }

    /// Gives out what is left: a last line without an ending.
    pub(crate) fn finish<E>(
        mut self,
        give: &mut impl FnMut(Piece) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.at_start {
            let rest = self.start(give)?;
            self.tail.extend_from_slice(&rest);
        }
        if self.tail.is_empty() { Ok(()) } else { self.end_line(Bytes::new(), give) }
    }

    fn start<E>(&mut self, give: &mut impl FnMut(Piece) -> Result<(), E>) -> Result<Bytes, E> {
        self.at_start = false;
        let mut block = self.tail.split().freeze();
        if block.starts_with(BOM) {
            give(Piece::Mark(block.split_to(BOM.len())))?;
        }
        Ok(block)
    }

    /// `rest` ends the line that is being read.
    fn end_line<E>(
        &mut self,
        rest: Bytes,
        give: &mut impl FnMut(Piece) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = self.line;
        if self.overlong || self.tail.len() + rest.len() > self.line_bytes_max {
            self.give_parts(rest, give)?;
        } else if self.tail.is_empty() {
            give(Piece::Line { line, raw: rest })?;
        } else {
            self.tail.extend_from_slice(&rest);
            give(Piece::Line { line, raw: self.tail.split().freeze() })?;
        }
        self.overlong = false;
        self.line += 1;
        Ok(())
    }

    /// `rest` belongs to a line whose end is in a later block.
    fn hold_back<E>(
        &mut self,
        rest: Bytes,
        give: &mut impl FnMut(Piece) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.overlong || self.tail.len() + rest.len() > self.line_bytes_max {
            return self.give_parts(rest, give);
        }
        self.tail.extend_from_slice(&rest);
        Ok(())
    }

    fn give_parts<E>(
        &mut self,
        rest: Bytes,
        give: &mut impl FnMut(Piece) -> Result<(), E>,
    ) -> Result<(), E> {
        for mut bytes in [self.tail.split().freeze(), rest] {
            while !bytes.is_empty() {
                let raw = bytes.split_to(bytes.len().min(PIECE_BYTES_MAX));
                give(Piece::Part { line: self.line, raw, first: !self.overlong })?;
                self.overlong = true;
            }
        }
        Ok(())
    }
}

impl Cut for Splitter {
    fn lines(&self) -> u64 {
        Splitter::lines(self)
    }

    fn push<E>(
        &mut self,
        block: Bytes,
        mut give: &mut dyn FnMut(Piece) -> Result<(), E>,
    ) -> Result<(), E> {
        Splitter::push(self, block, &mut give)
    }

    fn finish<E>(&mut self, mut give: &mut dyn FnMut(Piece) -> Result<(), E>) -> Result<(), E> {
        let lines = Self::new(self.line_bytes_max);
        std::mem::replace(self, lines).finish(&mut give)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(bytes: &[u8], cuts: &[usize], line_bytes_max: usize) -> Vec<Piece> {
        let (mut splitter, mut pieces) = (Splitter::new(line_bytes_max), Vec::new());
        let mut give = |piece| {
            pieces.push(piece);
            Ok::<_, std::convert::Infallible>(())
        };
        let mut rest = Bytes::copy_from_slice(bytes);
        for cut in cuts {
            let block = rest.split_to((*cut).min(rest.len()));
            splitter.push(block, &mut give).unwrap();
        }
        splitter.push(rest, &mut give).unwrap();
        splitter.finish(&mut give).unwrap();
        pieces
    }

    fn raw(piece: &Piece) -> &Bytes {
        match piece {
            Piece::Mark(raw) | Piece::Line { raw, .. } | Piece::Part { raw, .. } => raw,
        }
    }

    fn lines(bytes: &[u8]) -> Vec<(u64, String)> {
        let text = |raw: &Bytes| String::from_utf8_lossy(raw).into_owned();
        let pieces = split(bytes, &[], 1000);
        let numbered = |piece: &Piece| match piece {
            Piece::Mark(raw) => (0, text(raw)),
            Piece::Line { line, raw } | Piece::Part { line, raw, .. } => (*line, text(raw)),
        };
        pieces.iter().map(numbered).collect()
    }

    #[test]
    fn endings_blank_lines_and_a_mark_are_kept() {
        let line = |line, raw: &str| (line, raw.to_owned());
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\n"), [line(1, "\n")]);
        assert_eq!(lines(b"a\r\n\nb"), [line(1, "a\r\n"), line(2, "\n"), line(3, "b")]);
        assert_eq!(lines(b"\xEF\xBB\xBFa\n"), [line(0, "\u{feff}"), line(1, "a\n")]);
        assert_eq!(lines(b"\xEF\xBB\xBF"), [line(0, "\u{feff}")]);
        assert_eq!(lines(b"a\n\xEF\xBB\xBFb").len(), 2, "a mark is one only at the beginning");
        assert_eq!(lines(b"\xEF\xBB"), [line(1, "\u{fffd}")]);
    }

    /// A line within one block is a view of the block, not a copy.
    #[test]
    fn whole_lines_share_the_block() {
        let mut splitter = Splitter::new(100);
        let mut seen = Vec::new();
        let mut give = |piece: Piece| {
            seen.push(raw(&piece).as_ptr());
            Ok::<_, std::convert::Infallible>(())
        };
        splitter.push(Bytes::from_static(b"first\n"), &mut give).unwrap();
        let block = Bytes::from_static(b"one\ntwo\n");
        splitter.push(block.clone(), &mut give).unwrap();
        assert_eq!(seen[1..], [block.as_ptr(), block[4..].as_ptr()]);
    }

    #[test]
    fn a_long_line_comes_in_parts_and_is_counted_once() {
        let long = vec![b'x'; PIECE_BYTES_MAX * 2 + 5];
        let bytes = [b"a\n", &long[..], b"\nb\n"].concat();
        let pieces = split(&bytes, &[7, 100, 3_000], 50);
        assert_eq!(pieces[0], Piece::Line { line: 1, raw: Bytes::from_static(b"a\n") });
        assert_eq!(
            *pieces.last().unwrap(),
            Piece::Line { line: 3, raw: Bytes::from_static(b"b\n") }
        );
        let firsts = pieces.iter().filter(|piece| matches!(piece, Piece::Part { first: true, .. }));
        assert_eq!(firsts.count(), 1);
    }

    proptest! {
        #[test]
        fn the_pieces_are_exactly_the_bytes(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(0xEF), any::<u8>()], 0..200),
            mark: bool,
            cuts in prop::collection::vec(0_usize..40, 0..10),
            line_bytes_max in 1_usize..60,
        ) {
            let bytes = if mark { [BOM, &bytes[..]].concat() } else { bytes };
            let pieces = split(&bytes, &cuts, line_bytes_max);
            prop_assert_eq!(pieces.iter().flat_map(|piece| raw(piece).to_vec()).collect::<Vec<_>>(), &bytes[..]);
            prop_assert!(pieces.iter().all(|piece| !raw(piece).is_empty()));

            // The same, line by line, as the plainest code would have it.
            let body = bytes.strip_prefix(BOM).unwrap_or(&bytes);
            let model: Vec<&[u8]> = body.split_inclusive(|byte| *byte == b'\n').collect();
            for (number, expected) in (1..).zip(&model) {
                let mut joined = Vec::new();
                for piece in &pieces {
                    match piece {
                        Piece::Line { line, raw } if *line == number => {
                            prop_assert!(raw.len() <= line_bytes_max);
                            joined.extend_from_slice(raw);
                        }
                        Piece::Part { line, raw, .. } if *line == number => {
                            prop_assert!(expected.len() > line_bytes_max);
                            joined.extend_from_slice(raw);
                        }
                        _ => {}
                    }
                }
                prop_assert_eq!(&joined[..], *expected);
            }
        }
    }
}
