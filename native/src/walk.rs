//! A walk over the plain records of one batch that believes none of them: `wire/record_walk.py`,
//! which is its oracle, in native code. The verdicts are those of DefaultRecord.readFrom.

use crate::varint::{Cursor, Stop};

/// The names of `record_walk.Flaw`, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    SizeTooLong = 1,
    SizeNegative,
    NoSize,
    PastEnd,
    Structure,
    LeftOver,
}

/// The record that ends a walk; `left` are the bytes after its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bad {
    pub flaw: Flaw,
    pub number: i64,
    pub left: usize,
}

/// A walk can be made in parts, so this is all it has to remember.
pub struct Walk {
    pub count: i64,
    pub is_in_order: bool,
    pub is_keyless: bool,
    pub newest: i64,
    pub oldest: i64,
    base_timestamp: i64,
    position: usize,
    index: i64,
    headers_left: usize,
    headers_end: usize,
}

impl Walk {
    pub fn new(count: i64, base_timestamp: i64) -> Self {
        Walk {
            count,
            is_in_order: true,
            is_keyless: false,
            newest: i64::MIN,
            oldest: i64::MAX,
            base_timestamp,
            position: 0,
            index: 0,
            headers_left: 0,
            headers_end: 0,
        }
    }

    /// Goes on by so many records or headers; true at the end. The bytes are the same every time.
    pub fn advance(&mut self, data: &[u8], mut most: i64) -> Result<bool, Bad> {
        while most > 0 && self.index < self.count {
            if self.headers_left > 0 {
                most -= self.go_through_headers(data, most)?;
            } else {
                self.read(data)?;
                most -= 1;
            }
        }
        if self.index < self.count {
            return Ok(false);
        }
        if self.position != data.len() {
            return Err(Bad {
                flaw: Flaw::LeftOver,
                number: self.count - 1,
                left: data.len().saturating_sub(self.position),
            });
        }
        Ok(true)
    }

    /// One record; its headers come after.
    #[inline(always)]
    fn read(&mut self, data: &[u8]) -> Result<(), Bad> {
        let mut cursor = Cursor::new(data, self.position);
        let size = match cursor.int() {
            Ok(size) => size,
            Err(Stop::End) => return Err(self.bad(Flaw::NoSize, 0)),
            Err(Stop::TooLong) => {
                return Err(self.bad(Flaw::SizeTooLong, data.len().saturating_sub(self.position)))
            }
        };
        let left = cursor.left();
        let Ok(size) = usize::try_from(size) else {
            return Err(self.bad(Flaw::SizeNegative, left));
        };
        if size > left {
            return Err(self.bad(Flaw::PastEnd, left));
        }
        let end = cursor.at() + size;
        // Fields only go forward: one that is read past the record's end would never fit its size.
        let mut fields = Cursor::new(&data[..end], cursor.at());
        let Ok((delta, offset, is_keyless, headers)) = fields_of(&mut fields) else {
            return Err(self.bad(Flaw::Structure, left));
        };
        let Ok(headers) = usize::try_from(headers) else {
            return Err(self.bad(Flaw::Structure, left));
        };
        // A header has two bytes at least.
        if headers > fields.left() / 2 || (headers == 0 && !fields.is_at_end()) {
            return Err(self.bad(Flaw::Structure, left));
        }
        let timestamp = self.base_timestamp.wrapping_add(delta);
        self.newest = self.newest.max(timestamp);
        self.oldest = self.oldest.min(timestamp);
        self.is_in_order &= i64::from(offset) == self.index;
        self.is_keyless |= is_keyless;
        self.position = fields.at();
        self.headers_left = headers;
        self.headers_end = end;
        if headers == 0 {
            self.index += 1;
        }
        Ok(())
    }

    /// At most so many of the record under way; how many it were.
    fn go_through_headers(&mut self, data: &[u8], most: i64) -> Result<i64, Bad> {
        let left = data.len() - self.headers_end;
        let mut cursor = Cursor::new(&data[..self.headers_end], self.position);
        let mut taken = 0;
        while taken < most && self.headers_left > 0 {
            match (cursor.bytes(), cursor.bytes()) {
                (Ok(Some(_)), Ok(_)) => {}
                _ => return Err(self.bad(Flaw::Structure, left)),
            }
            self.headers_left -= 1;
            taken += 1;
        }
        self.position = cursor.at();
        if self.headers_left == 0 {
            if !cursor.is_at_end() {
                return Err(self.bad(Flaw::Structure, left));
            }
            self.index += 1;
        }
        Ok(taken)
    }

    #[cold]
    fn bad(&self, flaw: Flaw, left: usize) -> Bad {
        Bad {
            flaw,
            number: self.index,
            left,
        }
    }
}

/// Timestamp delta, offset delta, whether there is no key, and the number of headers.
#[inline(always)]
fn fields_of(cursor: &mut Cursor) -> Result<(i64, i32, bool, i32), Stop> {
    // Attributes: none are defined.
    cursor.skip(1)?;
    let delta = cursor.long()?;
    let offset = cursor.int()?;
    let key = cursor.bytes()?;
    cursor.bytes()?;
    Ok((delta, offset, key.is_none(), cursor.int()?))
}
