//! The batch that most producers send: no codec, no transaction, offsets from 0, times of its own.
//! What `storage/append/plain.py` asks of it, in one go.

use crate::walk::Walk;

const HEADER_BYTES: usize = 61;
/// Base offset and length.
const LOG_OVERHEAD_BYTES: usize = 12;
const MAGIC: u8 = 2;

fn field<const SIZE: usize>(data: &[u8], at: usize) -> Option<[u8; SIZE]> {
    data.get(at..at + SIZE)?.try_into().ok()
}

fn int(data: &[u8], at: usize) -> Option<i32> {
    field(data, at).map(i32::from_be_bytes)
}

fn long(data: &[u8], at: usize) -> Option<i64> {
    field(data, at).map(i64::from_be_bytes)
}

pub fn usual(data: &[u8], looks_at_records: bool, most: i64) -> Option<(u32, i64, i64, i64)> {
    let records = data.get(HEADER_BYTES..)?;
    let length = usize::try_from(int(data, 8)?).ok()?;
    let count = i64::from(int(data, 57)?);
    let (oldest, newest) = (long(data, 27)?, long(data, 35)?);
    let is_usual = long(data, 0)? == 0
        && length == data.len() - LOG_OVERHEAD_BYTES
        && data[16] == MAGIC
        && field(data, 21)? == [0, 0]
        && count > 0
        && count == i64::from(int(data, 23)?) + 1
        && newest >= 0;
    if !is_usual {
        return None;
    }
    if looks_at_records {
        let mut walk = Walk::new(count, oldest);
        if walk.advance(records, most) != Ok(true) || walk.newest != newest {
            return None;
        }
    }
    let crc = u32::from_be_bytes(field(data, 17)?);
    Some((crc, count, newest, long(data, 43)?))
}
