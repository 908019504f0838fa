//! Arrow columns to the records of batches: `encode` of `wire/columnar_encode.py`.

use crate::varint::{put, width, zigzag};

/// What a record has at most beside its key, value and headers, unless its numbers are extreme.
const OVERHEAD_BYTES: i64 = 24;
/// Partitions have a place in a table; pure Python takes more.
pub const MOST_PARTITIONS: usize = 1 << 16;

/// An Arrow array of type binary, as its buffers are; it may begin in the middle of them.
pub struct Column<'a> {
    pub offset: usize,
    pub bounds: &'a [u8],
    pub data: &'a [u8],
    pub validity: Option<&'a [u8]>,
}

impl<'a> Column<'a> {
    /// One row's bytes; outside None where the buffers do not have it, inside None for null.
    #[inline(always)]
    pub fn get(&self, row: usize) -> Option<Option<&'a [u8]>> {
        let row = self.offset.checked_add(row)?;
        if let Some(bits) = self.validity {
            if bits.get(row / 8)? >> (row % 8) & 1 == 0 {
                return Some(None);
            }
        }
        let begin = usize::try_from(int_at(self.bounds, row)?).ok()?;
        let end = usize::try_from(int_at(self.bounds, row + 1)?).ok()?;
        self.data.get(begin..end).map(Some)
    }
}

#[inline(always)]
pub fn int_at(buffer: &[u8], index: usize) -> Option<i32> {
    let begin = index.checked_mul(4)?;
    let bytes = buffer.get(begin..begin.checked_add(4)?)?;
    Some(i32::from_ne_bytes(bytes.try_into().ok()?))
}

#[inline(always)]
pub fn long_at(buffer: &[u8], index: usize) -> Option<i64> {
    let begin = index.checked_mul(8)?;
    let bytes = buffer.get(begin..begin.checked_add(8)?)?;
    Some(i64::from_ne_bytes(bytes.try_into().ok()?))
}

/// What is written, row by row: longs and columns as buffers.
pub struct Rows<'a> {
    pub partitions: &'a [u8],
    pub timestamps: &'a [u8],
    pub keys: Option<Column<'a>>,
    pub values: Column<'a>,
    /// The headers of each row as they are written: their count, then names and values.
    pub headers: Option<Column<'a>>,
}

/// One row as it is written.
struct Row<'a> {
    timestamp: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: &'a [u8],
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn get(&self, row: usize) -> Option<Row<'a>> {
        Some(Row {
            timestamp: long_at(self.timestamps, row)?,
            key: match &self.keys {
                Some(keys) => keys.get(row)?,
                None => None,
            },
            value: self.values.get(row)?,
            headers: match &self.headers {
                Some(headers) => headers.get(row)??,
                None => &[0],
            },
        })
    }

    /// Which lane a row belongs to.
    #[inline(always)]
    fn partition(&self, row: usize) -> Option<usize> {
        let partition = usize::try_from(long_at(self.partitions, row)?).ok()?;
        (partition < MOST_PARTITIONS).then_some(partition)
    }
}

/// The records of one batch, and where they stand.
#[derive(Clone, Copy)]
pub struct Batch {
    pub records: i64,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub begin: usize,
    pub end: usize,
}

pub enum Failed {
    /// The buffers do not have what they should.
    Input,
    Memory,
}

/// The records of one partition, and where the last batch stands.
#[derive(Default)]
pub struct Lane {
    pub records: Vec<u8>,
    pub batches: Vec<Batch>,
    size: usize,
    before: i64,
    filled: i64,
    was_large: bool,
}

impl Lane {
    /// Cuts batches where the oracle cuts them: when one is full, and around a record that is large by
    /// itself.
    #[inline(always)]
    fn put(&mut self, row: &Row, batch_bytes: i64) {
        let estimate = estimate(row);
        let is_large = estimate > batch_bytes / 2;
        let filled = self.before / batch_bytes;
        if self.batches.is_empty() || filled != self.filled || is_large || self.was_large {
            self.batches.push(Batch {
                records: 0,
                base_timestamp: row.timestamp,
                max_timestamp: row.timestamp,
                begin: self.records.len(),
                end: self.records.len(),
            });
        }
        self.filled = filled;
        self.before += estimate;
        self.was_large = is_large;
        if let Some(batch) = self.batches.last_mut() {
            put_record(&mut self.records, row, batch);
        }
    }
}

/// The records of every partition that has some. Rows are read in their order and each partition is
/// written in its own: sorted first, they would be read from all over memory.
pub fn encode(rows: &Rows, batch_bytes: i64) -> Result<Vec<(usize, Lane)>, Failed> {
    if batch_bytes < 1 {
        return Err(Failed::Input);
    }
    let count = rows.partitions.len() / 8;
    let mut lanes: Vec<Lane> = Vec::new();
    for index in 0..count {
        let row = rows.get(index).ok_or(Failed::Input)?;
        let partition = rows.partition(index).ok_or(Failed::Input)?;
        if partition >= lanes.len() {
            lanes.resize_with(partition + 1, Lane::default);
        }
        let size = &mut lanes[partition].size;
        *size = size
            .checked_add(estimate(&row) as usize)
            .ok_or(Failed::Memory)?;
    }
    for lane in &mut lanes {
        lane.records
            .try_reserve_exact(lane.size)
            .map_err(|_| Failed::Memory)?;
    }
    for index in 0..count {
        let row = rows.get(index).ok_or(Failed::Input)?;
        let partition = rows.partition(index).ok_or(Failed::Input)?;
        lanes[partition].put(&row, batch_bytes);
    }
    let used = lanes.into_iter().enumerate();
    Ok(used.filter(|(_, lane)| !lane.batches.is_empty()).collect())
}

#[inline(always)]
fn estimate(row: &Row) -> i64 {
    let content = row.key.map_or(0, <[u8]>::len) + row.value.map_or(0, <[u8]>::len);
    (content + row.headers.len()) as i64 + OVERHEAD_BYTES
}

#[inline(always)]
fn put_record(out: &mut Vec<u8>, row: &Row, batch: &mut Batch) {
    let timestamp = zigzag(row.timestamp.wrapping_sub(batch.base_timestamp));
    let offset = zigzag(batch.records);
    let key = length_field(row.key);
    let value = length_field(row.value);
    let content = row.key.map_or(0, <[u8]>::len) + row.value.map_or(0, <[u8]>::len);
    // One byte of attributes.
    let size = 1
        + width(timestamp)
        + width(offset)
        + width(key)
        + width(value)
        + content
        + row.headers.len();
    put(out, zigzag(size as i64));
    out.push(0);
    put(out, timestamp);
    put(out, offset);
    put(out, key);
    out.extend_from_slice(row.key.unwrap_or_default());
    put(out, value);
    out.extend_from_slice(row.value.unwrap_or_default());
    out.extend_from_slice(row.headers);
    batch.records += 1;
    batch.max_timestamp = batch.max_timestamp.max(row.timestamp);
    batch.end = out.len();
}

#[inline(always)]
fn length_field(bytes: Option<&[u8]>) -> u64 {
    zigzag(bytes.map_or(-1, |bytes| bytes.len() as i64))
}
