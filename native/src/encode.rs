//! Arrow columns to the records of batches: `encode` of `wire/columnar_encode.py`.

use crate::varint::{put, width, zigzag};

/// What a record has at most beside its key, value and headers.
const OVERHEAD_BYTES: i64 = 24;

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
    /// The rows in the order of writing, partition after partition.
    pub order: &'a [u8],
    pub partitions: &'a [u8],
    pub timestamps: &'a [u8],
    pub keys: Option<Column<'a>>,
    pub values: Column<'a>,
    /// The headers of each row as they are written: their count, then names and values.
    pub headers: Option<Column<'a>>,
}

/// One row as it is written.
struct Row<'a> {
    partition: i64,
    timestamp: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    headers: &'a [u8],
}

impl<'a> Rows<'a> {
    #[inline(always)]
    fn get(&self, index: usize) -> Option<Row<'a>> {
        let row = usize::try_from(long_at(self.order, index)?).ok()?;
        Some(Row {
            partition: long_at(self.partitions, row)?,
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
}

/// The records of one batch, and where they stand.
#[derive(Clone, Copy)]
pub struct Batch {
    pub partition: i64,
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

/// All records behind one another, cut into batches where the oracle cuts them: at a new partition,
/// when one is full, and around a record that is large by itself.
pub fn encode(rows: &Rows, batch_bytes: i64) -> Result<(Vec<u8>, Vec<Batch>), Failed> {
    if batch_bytes < 1 {
        return Err(Failed::Input);
    }
    let count = rows.order.len() / 8;
    let (mut out, mut batches) = (Vec::new(), Vec::<Batch>::new());
    out.try_reserve_exact(most_bytes(rows, count)?)
        .map_err(|_| Failed::Memory)?;
    let (mut before, mut filled, mut was_large) = (0, 0, false);
    for index in 0..count {
        let row = rows.get(index).ok_or(Failed::Input)?;
        let estimate = estimate(&row);
        let is_large = estimate > batch_bytes / 2;
        let is_new_partition = batches
            .last()
            .is_none_or(|last| last.partition != row.partition);
        if is_new_partition {
            (before, filled) = (0, 0);
        }
        let is_full = before / batch_bytes != filled;
        if is_new_partition || is_full || is_large || was_large {
            batches.push(Batch {
                partition: row.partition,
                records: 0,
                base_timestamp: row.timestamp,
                max_timestamp: row.timestamp,
                begin: out.len(),
                end: out.len(),
            });
        }
        filled = before / batch_bytes;
        before += estimate;
        was_large = is_large;
        if let Some(batch) = batches.last_mut() {
            put_record(&mut out, &row, batch);
        }
    }
    Ok((out, batches))
}

#[inline(always)]
fn estimate(row: &Row) -> i64 {
    let content = row.key.map_or(0, <[u8]>::len) + row.value.map_or(0, <[u8]>::len);
    (content + row.headers.len()) as i64 + OVERHEAD_BYTES
}

/// Room for everything, so that the records are written without a look at it.
fn most_bytes(rows: &Rows, count: usize) -> Result<usize, Failed> {
    let mut most = 0_usize;
    for index in 0..count {
        let row = rows.get(index).ok_or(Failed::Input)?;
        most = most
            .checked_add(estimate(&row) as usize)
            .ok_or(Failed::Memory)?;
    }
    Ok(most)
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
