//! Zig-zag varints, read as Java's ByteUtils reads them and written as it writes them.

/// Why a number could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The bytes end before the number does.
    End,
    /// It has more than five bytes, or ten where it is a long.
    TooLong,
}

/// Reads one field after another; nothing is read past the end of the bytes.
pub struct Cursor<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    pub fn new(data: &'a [u8], at: usize) -> Self {
        Cursor { data, at }
    }

    #[inline(always)]
    pub fn at(&self) -> usize {
        self.at
    }

    #[inline(always)]
    pub fn is_at_end(&self) -> bool {
        self.at >= self.data.len()
    }

    /// How many bytes are left.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.data.len().saturating_sub(self.at)
    }

    #[inline(always)]
    fn byte(&mut self) -> Result<u8, Stop> {
        let byte = *self.data.get(self.at).ok_or(Stop::End)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline(always)]
    pub fn skip(&mut self, bytes: usize) -> Result<(), Stop> {
        if bytes > self.left() {
            return Err(Stop::End);
        }
        self.at += bytes;
        Ok(())
    }

    /// A number of 32 bits: up to five bytes, and what the fifth has above them does not count.
    #[inline(always)]
    pub fn int(&mut self) -> Result<i32, Stop> {
        let first = self.byte()?;
        if first < 128 {
            return Ok(unzigzag(u32::from(first)));
        }
        let second = self.byte()?;
        let value = u32::from(first & 127) | u32::from(second & 127) << 7;
        if second < 128 {
            return Ok(unzigzag(value));
        }
        self.long_int(value)
    }

    #[cold]
    fn long_int(&mut self, mut value: u32) -> Result<i32, Stop> {
        for shift in [14, 21, 28] {
            let byte = self.byte()?;
            value |= u32::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(unzigzag(value));
            }
        }
        Err(Stop::TooLong)
    }

    /// A number of 64 bits: up to ten bytes, of the tenth the one bit that still fits.
    #[inline(always)]
    pub fn long(&mut self) -> Result<i64, Stop> {
        let first = self.byte()?;
        let mut value = u64::from(first & 127);
        if first >= 128 {
            let mut shift = 7;
            loop {
                let byte = self.byte()?;
                value |= u64::from(byte & 127) << shift;
                if byte < 128 {
                    break;
                }
                shift += 7;
                if shift > 63 {
                    return Err(Stop::TooLong);
                }
            }
        }
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A length and as many bytes; any negative length is that of null, as in Kafka.
    #[inline(always)]
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, Stop> {
        let Ok(length) = usize::try_from(self.int()?) else {
            return Ok(None);
        };
        let begin = self.at;
        self.skip(length)?;
        Ok(Some(&self.data[begin..self.at]))
    }
}

#[inline(always)]
fn unzigzag(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

#[inline(always)]
pub fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// How many bytes a zig-zag number takes.
#[inline(always)]
pub fn width(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

#[inline(always)]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}
