//! Produce requests and their answers, versions 3 to 9: as bytes, and checked byte by byte.

use std::time::{SystemTime, UNIX_EPOCH};

pub const VERSIONS: std::ops::RangeInclusive<i16> = 3..=9;
const PRODUCE: i16 = 0;
const CLIENT_ID: &str = "ottla-load";
/// Where the correlation id stands in a request, its length included.
pub const CORRELATION_AT: usize = 8;
/// No answer to one batch is longer, whatever the broker writes into its error message.
pub const LONGEST_ANSWER: usize = 64 * 1024;

#[derive(Clone)]
pub struct Shape {
    pub topic: String,
    pub version: i16,
    pub records: usize,
    pub bytes: usize,
    pub acks: i16,
}

fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn put_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn crc32c(bytes: &[u8]) -> u32 {
    let mut table = [0u32; 256];
    for (byte, entry) in table.iter_mut().enumerate() {
        *entry = (0..8).fold(byte as u32, |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 }
        });
    }
    !bytes.iter().fold(!0u32, |crc, byte| {
        (crc >> 8) ^ table[((crc ^ u32::from(*byte)) & 0xFF) as usize]
    })
}

/// A batch of format 2 without a producer id: `records` values of `bytes` bytes, no keys.
fn batch(records: usize, bytes: usize) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |since| since.as_millis() as i64);
    let mut after_crc = Vec::new();
    after_crc.extend(0i16.to_be_bytes()); // attributes
    after_crc.extend((records as i32 - 1).to_be_bytes()); // last offset delta
    after_crc.extend(now_ms.to_be_bytes());
    after_crc.extend(now_ms.to_be_bytes());
    after_crc.extend((-1i64).to_be_bytes()); // producer id
    after_crc.extend((-1i16).to_be_bytes()); // producer epoch
    after_crc.extend((-1i32).to_be_bytes()); // base sequence
    after_crc.extend((records as i32).to_be_bytes());
    for offset in 0..records {
        let mut record = vec![0u8]; // attributes
        put_varint(&mut record, 0); // timestamp delta
        put_varint(&mut record, offset as i64);
        put_varint(&mut record, -1); // no key
        put_varint(&mut record, bytes as i64);
        record.extend((0..bytes).map(|place| b'a' + ((place + offset) % 26) as u8));
        put_varint(&mut record, 0); // no headers
        put_varint(&mut after_crc, record.len() as i64);
        after_crc.extend(record);
    }
    let mut batch = Vec::new();
    batch.extend(0i64.to_be_bytes()); // base offset
    batch.extend((after_crc.len() as i32 + 9).to_be_bytes());
    batch.extend((-1i32).to_be_bytes()); // leader epoch
    batch.push(2);
    batch.extend(crc32c(&after_crc).to_be_bytes());
    batch.extend(after_crc);
    batch
}

/// A Produce request of one batch, its length in front; the correlation id is left to the sender.
pub fn request(shape: &Shape, partition: i32) -> Vec<u8> {
    let flexible = shape.version >= 9;
    let batch = batch(shape.records, shape.bytes);
    let mut out = vec![0u8; 4];
    out.extend(PRODUCE.to_be_bytes());
    out.extend(shape.version.to_be_bytes());
    out.extend(0i32.to_be_bytes()); // correlation id
    out.extend((CLIENT_ID.len() as i16).to_be_bytes());
    out.extend(CLIENT_ID.as_bytes());
    if flexible {
        out.push(0); // tags of the header
        out.push(0); // no transactional id
    } else {
        out.extend((-1i16).to_be_bytes());
    }
    out.extend(shape.acks.to_be_bytes());
    out.extend(30_000i32.to_be_bytes());
    if flexible {
        put_unsigned(&mut out, 2); // one topic
        put_unsigned(&mut out, shape.topic.len() as u64 + 1);
        out.extend(shape.topic.as_bytes());
        put_unsigned(&mut out, 2); // one partition
        out.extend(partition.to_be_bytes());
        put_unsigned(&mut out, batch.len() as u64 + 1);
        out.extend(batch);
        out.extend([0, 0, 0]); // tags of partition, topic, request
    } else {
        out.extend(1i32.to_be_bytes());
        out.extend((shape.topic.len() as i16).to_be_bytes());
        out.extend(shape.topic.as_bytes());
        out.extend(1i32.to_be_bytes());
        out.extend(partition.to_be_bytes());
        out.extend((batch.len() as i32).to_be_bytes());
        out.extend(batch);
    }
    let length = (out.len() - 4) as i32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// Bytes that are read from the front; every read is checked against the end.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn i16(&mut self) -> Option<i16> {
        Some(i16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    pub fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub fn name(&mut self, flexible: bool) -> Option<&'a [u8]> {
        let length = if flexible {
            self.unsigned()?.checked_sub(1)? as usize
        } else {
            usize::try_from(self.i16()?).ok()?
        };
        self.take(length)
    }

    pub fn count(&mut self, flexible: bool) -> Option<u64> {
        if flexible {
            self.unsigned()?.checked_sub(1)
        } else {
            u64::try_from(self.i32()?).ok()
        }
    }
}

/// The error code of an answer (without its length); None where it is not the answer to that request.
pub fn error_code(answer: &[u8], shape: &Shape, partition: i32, correlation: i32) -> Option<i16> {
    let flexible = shape.version >= 9;
    let mut rest = Reader(answer);
    if rest.i32()? != correlation {
        return None;
    }
    if flexible && rest.unsigned()? != 0 {
        return None;
    }
    if rest.count(flexible)? != 1 || rest.name(flexible)? != shape.topic.as_bytes() {
        return None;
    }
    if rest.count(flexible)? != 1 || rest.i32()? != partition {
        return None;
    }
    let code = rest.i16()?;
    // Base offset and time; from 5 on the first offset of the log; then the throttle time at the end.
    rest.take(if shape.version >= 5 { 24 } else { 16 })?;
    if shape.version < 8 {
        rest.take(4)?;
        return rest.0.is_empty().then_some(code);
    }
    Some(code)
}

/// What the null server says to a Produce request (without its length): all went well.
pub fn answer(request: &[u8]) -> Option<Vec<u8>> {
    let mut rest = Reader(request);
    let (key, version, correlation) = (rest.i16()?, rest.i16()?, rest.i32()?);
    if key != PRODUCE || !VERSIONS.contains(&version) {
        return None;
    }
    let flexible = version >= 9;
    rest.name(false)?; // client id
    if flexible {
        rest.take(2)?; // tags, no transactional id
    } else {
        rest.take(2)?;
    }
    rest.take(6)?; // acks, timeout
    rest.count(flexible)?;
    let topic = rest.name(flexible)?;
    rest.count(flexible)?;
    let partition = rest.i32()?;
    let mut out = vec![0u8; 4];
    out.extend(correlation.to_be_bytes());
    if flexible {
        out.push(0);
        put_unsigned(&mut out, 2);
        put_unsigned(&mut out, topic.len() as u64 + 1);
        out.extend(topic);
        put_unsigned(&mut out, 2);
    } else {
        out.extend(1i32.to_be_bytes());
        out.extend((topic.len() as i16).to_be_bytes());
        out.extend(topic);
        out.extend(1i32.to_be_bytes());
    }
    out.extend(partition.to_be_bytes());
    out.extend(0i16.to_be_bytes());
    out.extend(0i64.to_be_bytes());
    out.extend((-1i64).to_be_bytes());
    if version >= 5 {
        out.extend(0i64.to_be_bytes());
    }
    match version {
        9.. => out.extend([1, 0, 0, 0]), // no record errors, no message, tags of partition and topic
        8 => {
            out.extend(0i32.to_be_bytes());
            out.extend((-1i16).to_be_bytes());
        }
        _ => {}
    }
    out.extend(0i32.to_be_bytes()); // throttle time
    if flexible {
        out.push(0);
    }
    let length = (out.len() - 4) as i32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(version: i16) -> Shape {
        Shape {
            topic: "load".into(),
            version,
            records: 3,
            bytes: 10,
            acks: 1,
        }
    }

    #[test]
    fn the_checksum_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn the_null_server_is_understood_in_every_version() {
        for version in VERSIONS {
            let shape = shape(version);
            let mut request = request(&shape, 5);
            request[CORRELATION_AT..CORRELATION_AT + 4].copy_from_slice(&77i32.to_be_bytes());
            let answer = answer(&request[4..]).unwrap();
            assert_eq!(error_code(&answer[4..], &shape, 5, 77), Some(0));
            assert_eq!(error_code(&answer[4..], &shape, 5, 78), None);
            assert_eq!(error_code(&answer[4..], &shape, 6, 77), None);
            for end in 0..answer.len() - 8 {
                error_code(&answer[4..4 + end], &shape, 5, 77);
            }
        }
    }

    #[test]
    fn an_answer_that_is_cut_off_or_too_long_is_none() {
        let shape = shape(7);
        let request = request(&shape, 0);
        let mut answer = answer(&request[4..]).unwrap();
        assert_eq!(error_code(&answer[4..answer.len() - 1], &shape, 0, 0), None);
        answer.push(0);
        assert_eq!(error_code(&answer[4..], &shape, 0, 0), None);
    }
}
