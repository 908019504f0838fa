//! Plain records to the buffers of Arrow columns: `_decode_body` of `wire/columnar.py`.

use crate::varint::{Cursor, Stop};

/// A record takes seven bytes at least (DefaultRecord with nothing in it).
const MIN_RECORD_BYTES: usize = 7;

/// One bit for each row; Arrow leaves them out where all are set.
#[derive(Default)]
pub struct Validity {
    pub bits: Vec<u8>,
    pub nulls: usize,
    rows: usize,
}

impl Validity {
    #[inline(always)]
    fn push(&mut self, is_valid: bool) {
        if self.rows % 8 == 0 {
            self.bits.push(0);
        }
        if let Some(last) = self.bits.last_mut() {
            *last |= u8::from(is_valid) << (self.rows % 8);
        }
        self.nulls += usize::from(!is_valid);
        self.rows += 1;
    }
}

/// Which columns are made; the others are walked over.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub keys: bool,
    pub values: bool,
    pub headers: bool,
}

/// An Arrow array of type binary.
pub struct Binary {
    pub bounds: Vec<i32>,
    pub data: Vec<u8>,
    pub validity: Validity,
}

impl Binary {
    fn new(rows: usize, bytes: usize) -> Self {
        let mut bounds = Vec::with_capacity(rows + 1);
        bounds.push(0);
        Binary {
            bounds,
            data: Vec::with_capacity(bytes),
            validity: Validity::default(),
        }
    }

    #[inline(always)]
    fn push(&mut self, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.data.extend_from_slice(value);
        }
        // All elements come from one buffer that is shorter than 2 GiB.
        self.bounds.push(self.data.len() as i32);
        self.validity.push(value.is_some());
    }
}

/// An Arrow array of type list<struct<key: binary, value: binary>>; a row without any is null.
pub struct Headers {
    pub bounds: Vec<i32>,
    pub validity: Validity,
    pub keys: Binary,
    pub values: Binary,
}

pub struct Columns {
    pub timestamp_deltas: Vec<i64>,
    pub offset_deltas: Vec<i64>,
    pub keys: Option<Binary>,
    pub values: Option<Binary>,
    pub headers: Option<Headers>,
}

/// Decodes the plain records of some batches, of which each has its number of them. None where
/// anything does not fit; whoever asks finds out what.
pub fn decode(batches: &[(&[u8], usize)], wanted: Wanted) -> Option<Columns> {
    let (rows, bytes) = checked_size(batches)?;
    let mut columns = Columns {
        timestamp_deltas: Vec::with_capacity(rows),
        offset_deltas: Vec::with_capacity(rows),
        keys: wanted.keys.then(|| Binary::new(rows, 0)),
        values: wanted.values.then(|| Binary::new(rows, bytes)),
        headers: wanted.headers.then(|| Headers {
            bounds: vec![0],
            validity: Validity::default(),
            keys: Binary::new(0, 0),
            values: Binary::new(0, 0),
        }),
    };
    for &(plain, count) in batches {
        let mut cursor = Cursor::new(plain, 0);
        for _ in 0..count {
            record(&mut columns, plain, &mut cursor).ok()?;
        }
        if !cursor.is_at_end() {
            return None;
        }
    }
    Some(columns)
}

/// How many records there are, no more than there can be, and how many bytes, no more than an Arrow
/// array takes: memory is bounded by what came.
fn checked_size(batches: &[(&[u8], usize)]) -> Option<(usize, usize)> {
    let (mut rows, mut bytes) = (0_usize, 0_usize);
    for &(plain, count) in batches {
        if count == 0 || count > plain.len() / MIN_RECORD_BYTES {
            return None;
        }
        rows += count;
        bytes = bytes.checked_add(plain.len())?;
    }
    (bytes <= i32::MAX as usize).then_some((rows, bytes))
}

#[inline(always)]
fn record(columns: &mut Columns, plain: &[u8], cursor: &mut Cursor) -> Result<(), Stop> {
    let size = usize::try_from(cursor.int()?).map_err(|_| Stop::End)?;
    let begin = cursor.at();
    cursor.skip(size)?;
    let mut fields = Cursor::new(&plain[..cursor.at()], begin);
    // Attributes: none are defined.
    fields.skip(1)?;
    columns.timestamp_deltas.push(fields.long()?);
    columns.offset_deltas.push(i64::from(fields.int()?));
    let (key, value) = (fields.bytes()?, fields.bytes()?);
    if let Some(keys) = &mut columns.keys {
        keys.push(key);
    }
    if let Some(values) = &mut columns.values {
        values.push(value);
    }
    let count = usize::try_from(fields.int()?).map_err(|_| Stop::End)?;
    // A header has two bytes at least.
    if count > fields.left() / 2 || (count == 0 && !fields.is_at_end()) {
        return Err(Stop::End);
    }
    if let Some(headers) = &mut columns.headers {
        for _ in 0..count {
            let key = fields.bytes()?.ok_or(Stop::End)?;
            headers.keys.push(Some(key));
            headers.values.push(fields.bytes()?);
        }
        if !fields.is_at_end() {
            return Err(Stop::End);
        }
        headers.bounds.push((headers.keys.bounds.len() - 1) as i32);
        headers.validity.push(count > 0);
    }
    Ok(())
}
