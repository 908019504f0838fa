//! What Ottla does to record bytes, in native code. Pure Python has all of it too and is the oracle:
//! `ottla.wire.native` chooses.
//!
//! No bytes, whatever they are, may make this panic, read out of bounds or take memory that is not in
//! proportion to them. The interpreter is let go only over `bytes`, which nobody can change.

mod buffers;
mod checksum;
mod columns;
mod digest;
mod encode;
mod hashing;
mod headers;
mod usual;
mod varint;
mod walk;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use buffers::{held, Chunk};
use columns::{Binary, Columns, Headers, Validity, Wanted};
use walk::{Bad, Walk};

/// Of what is called here and how; Python takes no other.
const FORM: u32 = 3;
/// Work on fewer bytes is done before another thread could have been woken.
const SHORT_BYTES: usize = 64 * 1024;

/// Goes over the records of a batch, in parts; `bad` says what ended it.
#[pyclass(module = "ottla_native")]
struct RecordWalk {
    plain: Py<PyAny>,
    size: usize,
    walk: Walk,
    bad: Option<Bad>,
}

#[pymethods]
impl RecordWalk {
    #[new]
    fn new(plain: Bound<'_, PyAny>, count: i64, base_timestamp: i64) -> PyResult<Self> {
        let size = PyUntypedBuffer::get(&plain)?.len_bytes();
        let walk = Walk::new(count, base_timestamp);
        Ok(RecordWalk {
            plain: plain.unbind(),
            size,
            walk,
            bad: None,
        })
    }

    /// Goes on by so many records or headers: 1 at the end, 0 before, -1 where a record is bad.
    fn advance(&mut self, py: Python<'_>, most: i64) -> PyResult<i32> {
        if self.bad.is_some() {
            return Ok(-1);
        }
        let walk = &mut self.walk;
        let plain = self.plain.bind(py);
        let result = match plain.cast_exact::<PyBytes>() {
            Ok(bytes) if bytes.as_bytes().len() > SHORT_BYTES => {
                let data = bytes.as_bytes();
                py.detach(|| walk.advance(data, most))
            }
            _ => {
                let buffer = PyUntypedBuffer::get(plain)?;
                let data = held(&buffer, py)?;
                if data.len() != self.size {
                    return Err(PyValueError::new_err("the records changed during a walk"));
                }
                walk.advance(data, most)
            }
        };
        match result {
            Ok(is_done) => Ok(i32::from(is_done)),
            Err(bad) => {
                self.bad = Some(bad);
                Ok(-1)
            }
        }
    }

    /// The number of the flaw, of the record, and the bytes after its size.
    #[getter]
    fn bad(&self) -> Option<(u8, i64, usize)> {
        self.bad.map(|bad| (bad.flaw as u8, bad.number, bad.left))
    }

    #[getter]
    fn is_in_order(&self) -> bool {
        self.walk.is_in_order
    }

    #[getter]
    fn is_keyless(&self) -> bool {
        self.walk.is_keyless
    }

    #[getter]
    fn newest(&self) -> i64 {
        self.walk.newest
    }

    #[getter]
    fn oldest(&self) -> i64 {
        self.walk.oldest
    }
}

/// Whether the records from `begin` on are right, their latest time is `newest`, and they count from
/// 0 where they have to. False also where that is not known after `most` records.
#[pyfunction]
fn holds(
    py: Python<'_>,
    records: &Bound<'_, PyAny>,
    begin: usize,
    count: i64,
    times: (i64, i64),
    must_count: bool,
    most: i64,
) -> PyResult<bool> {
    let buffer = PyUntypedBuffer::get(records)?;
    let Some(data) = held(&buffer, py)?.get(begin..) else {
        return Ok(false);
    };
    let mut walk = Walk::new(count, times.0);
    Ok(walk.advance(data, most) == Ok(true)
        && walk.newest == times.1
        && (walk.is_in_order || !must_count))
}

/// What a leader needs to know of a batch as most producers send it: its checksum, how many records
/// it has, their latest time, its producer. None where header or records are anything else, or where
/// that is not known after `most` records; the checksum is left to the caller.
#[pyfunction]
fn usual_batch(
    py: Python<'_>,
    batch: &Bound<'_, PyAny>,
    looks_at_records: bool,
    most: i64,
) -> PyResult<Option<(u32, i64, i64, i64)>> {
    let buffer = PyUntypedBuffer::get(batch)?;
    Ok(usual::usual(held(&buffer, py)?, looks_at_records, most))
}

/// Python's buffers of an Arrow array: bits of validity if there are nulls, bounds, data; and how
/// many nulls there are.
type Buffers = (Option<Chunk>, Chunk, Chunk, usize);

fn binary(column: Binary) -> Buffers {
    let (validity, nulls) = bits(column.validity);
    (validity, column.bounds.into(), column.data.into(), nulls)
}

fn bits(validity: Validity) -> (Option<Chunk>, usize) {
    let nulls = validity.nulls;
    ((nulls > 0).then(|| validity.bits.into()), nulls)
}

type HeaderBuffers = (Option<Chunk>, Chunk, usize, Buffers, Buffers);

fn header_buffers(headers: Headers) -> HeaderBuffers {
    let (validity, nulls) = bits(headers.validity);
    (
        validity,
        headers.bounds.into(),
        nulls,
        binary(headers.keys),
        binary(headers.values),
    )
}

type ColumnBuffers = (
    Chunk,
    Chunk,
    Option<Buffers>,
    Option<Buffers>,
    Option<HeaderBuffers>,
);

/// The buffers of Arrow's columns for some batches: of each its plain records and how many they are.
/// Keys, values and headers are made if they are wanted. None where anything does not fit.
#[pyfunction]
fn decode(
    py: Python<'_>,
    batches: Vec<(Bound<'_, PyAny>, usize)>,
    wanted: (bool, bool, bool),
) -> PyResult<Option<ColumnBuffers>> {
    let mut buffers = Vec::with_capacity(batches.len());
    for (plain, _) in &batches {
        buffers.push(PyUntypedBuffer::get(plain)?);
    }
    let mut parts = Vec::with_capacity(batches.len());
    for (buffer, (_, count)) in buffers.iter().zip(&batches) {
        parts.push((held(buffer, py)?, *count));
    }
    let (keys, values, headers) = wanted;
    let wanted = Wanted {
        keys,
        values,
        headers,
    };
    let are_bytes = batches
        .iter()
        .all(|(plain, _)| plain.is_exact_instance_of::<PyBytes>());
    let columns = if are_bytes {
        py.detach(|| columns::decode(&parts, wanted))
    } else {
        columns::decode(&parts, wanted)
    };
    Ok(columns.map(column_buffers))
}

fn column_buffers(columns: Columns) -> ColumnBuffers {
    (
        columns.timestamp_deltas.into(),
        columns.offset_deltas.into(),
        columns.keys.map(binary),
        columns.values.map(binary),
        columns.headers.map(header_buffers),
    )
}

/// The exported buffers of an Arrow array and where it begins in them.
struct Exported {
    validity: Option<PyUntypedBuffer>,
    bounds: PyUntypedBuffer,
    data: PyUntypedBuffer,
    offset: usize,
}

impl Exported {
    /// From (validity or None, bounds, data, offset).
    fn of(array: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let validity = array.get_item(0)?;
        Ok(Exported {
            validity: if validity.is_none() {
                None
            } else {
                Some(PyUntypedBuffer::get(&validity)?)
            },
            bounds: PyUntypedBuffer::get(&array.get_item(1)?)?,
            data: PyUntypedBuffer::get(&array.get_item(2)?)?,
            offset: array.get_item(3)?.extract()?,
        })
    }

    fn column<'a>(&'a self, py: Python<'a>) -> PyResult<encode::Column<'a>> {
        Ok(encode::Column {
            offset: self.offset,
            bounds: held(&self.bounds, py)?,
            data: held(&self.data, py)?,
            validity: self
                .validity
                .as_ref()
                .map(|bits| held(bits, py))
                .transpose()?,
        })
    }
}

fn optional<'a>(
    array: Option<&'a Exported>,
    py: Python<'a>,
) -> PyResult<Option<encode::Column<'a>>> {
    array.map(|array| array.column(py)).transpose()
}

/// Of a batch: number of records, first and latest timestamp, where it begins and ends.
type BatchFields = (i64, i64, i64, usize, usize);

/// For each partition: its number, its records behind one another, its batches.
#[pyfunction]
#[pyo3(signature = (partitions, timestamps, keys, values, headers, batch_bytes))]
fn encode_records(
    py: Python<'_>,
    partitions: &Bound<'_, PyAny>,
    timestamps: &Bound<'_, PyAny>,
    keys: Option<Bound<'_, PyTuple>>,
    values: &Bound<'_, PyTuple>,
    headers: Option<Bound<'_, PyTuple>>,
    batch_bytes: i64,
) -> PyResult<Vec<(usize, Chunk, Vec<BatchFields>)>> {
    let partitions = PyUntypedBuffer::get(partitions)?;
    let timestamps = PyUntypedBuffer::get(timestamps)?;
    let keys = keys.as_ref().map(Exported::of).transpose()?;
    let values = Exported::of(values)?;
    let headers = headers.as_ref().map(Exported::of).transpose()?;
    let rows = encode::Rows {
        partitions: held(&partitions, py)?,
        timestamps: held(&timestamps, py)?,
        keys: optional(keys.as_ref(), py)?,
        values: values.column(py)?,
        headers: optional(headers.as_ref(), py)?,
    };
    let lanes = encode::encode(&rows, batch_bytes).map_err(failure)?;
    Ok(lanes.into_iter().map(lane_fields).collect())
}

fn lane_fields((partition, lane): (usize, encode::Lane)) -> (usize, Chunk, Vec<BatchFields>) {
    let batches = lane.batches.iter();
    let fields = batches.map(|it| {
        (
            it.records,
            it.base_timestamp,
            it.max_timestamp,
            it.begin,
            it.end,
        )
    });
    (partition, lane.records.into(), fields.collect())
}

fn failure(failed: encode::Failed) -> PyErr {
    match failed {
        encode::Failed::Input => PyValueError::new_err("columns that do not fit their buffers"),
        encode::Failed::Memory => PyMemoryError::new_err("the records do not fit into memory"),
    }
}

/// The headers of every row as a record has them: buffers of an Arrow array without nulls.
#[pyfunction]
fn encode_headers(
    py: Python<'_>,
    per_row: &Bound<'_, PyAny>,
    keys: &Bound<'_, PyTuple>,
    values: &Bound<'_, PyTuple>,
) -> PyResult<(Chunk, Chunk)> {
    let per_row = PyUntypedBuffer::get(per_row)?;
    let (keys, values) = (Exported::of(keys)?, Exported::of(values)?);
    let (bounds, data) =
        headers::encode(held(&per_row, py)?, &keys.column(py)?, &values.column(py)?)
            .map_err(failure)?;
    Ok((bounds.into(), data.into()))
}

/// Kafka's hash of one key, as an unsigned number.
#[pyfunction]
fn murmur2(py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<u32> {
    let buffer = PyUntypedBuffer::get(key)?;
    Ok(hashing::murmur2(held(&buffer, py)?))
}

/// The hash of each key of an Arrow array, as a chunk of longs; that of null is 0.
#[pyfunction]
fn murmur2_of_all(py: Python<'_>, keys: &Bound<'_, PyTuple>, count: usize) -> PyResult<Chunk> {
    let keys = Exported::of(keys)?;
    let column = keys.column(py)?;
    if count > column.bounds.len() / 4 {
        return Err(failure(encode::Failed::Input));
    }
    let mut hashes = Vec::with_capacity(count);
    for first in (0..count).step_by(hashing::ABREAST) {
        // A place without a key does what the one before it does.
        let mut keys: [&[u8]; hashing::ABREAST] = Default::default();
        let mut has_key = [false; hashing::ABREAST];
        for place in 0..hashing::ABREAST {
            keys[place] = keys[place.saturating_sub(1)];
            if first + place < count {
                let key = column.get(first + place);
                let key = key.ok_or_else(|| failure(encode::Failed::Input))?;
                has_key[place] = key.is_some();
                keys[place] = key.unwrap_or(keys[place]);
            }
        }
        let found = hashing::murmur2_abreast(keys).into_iter().zip(has_key);
        let longs = found.map(|(hash, has_key)| if has_key { i64::from(hash) } else { 0 });
        hashes.extend(longs.take(count - first));
    }
    Ok(hashes.into())
}

/// The sum of the hashes of so many rows. Each field is None where the column is missing, an Arrow
/// array of bytes, or a buffer of its hashes.
#[pyfunction]
fn digest_of_rows(
    py: Python<'_>,
    fields: Vec<Option<Bound<'_, PyAny>>>,
    count: usize,
) -> PyResult<u64> {
    let exported = fields.iter().map(|field| match field {
        None => Ok(Source::Missing),
        Some(field) => match field.cast::<PyTuple>() {
            Ok(array) => Exported::of(array).map(Source::Binary),
            Err(_) => PyUntypedBuffer::get(field).map(Source::Hashes),
        },
    });
    let exported = exported.collect::<PyResult<Vec<_>>>()?;
    let columns = exported.iter().map(|field| {
        Ok(match field {
            Source::Missing => digest::Field::Missing,
            Source::Binary(array) => digest::Field::Binary(array.column(py)?),
            Source::Hashes(buffer) => digest::Field::Hashes(held(buffer, py)?),
        })
    });
    let columns = columns.collect::<PyResult<Vec<_>>>()?;
    digest::digest(&columns, count).ok_or_else(|| failure(encode::Failed::Input))
}

/// What is held of a field of a digest.
enum Source {
    Missing,
    Binary(Exported),
    Hashes(PyUntypedBuffer),
}

/// CRC-32C without the processor's instruction, for tests: most machines never come here otherwise.
#[pyfunction]
fn crc32c_by_table(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<u32> {
    let buffer = PyUntypedBuffer::get(data)?;
    Ok(checksum::by_table(held(&buffer, py)?))
}

#[pymodule(gil_used = true)]
fn ottla_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("FORM", FORM)?;
    module.add("MOST_PARTITIONS", encode::MOST_PARTITIONS)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<RecordWalk>()?;
    module.add_class::<Chunk>()?;
    module.add_function(wrap_pyfunction!(holds, module)?)?;
    module.add_function(wrap_pyfunction!(usual_batch, module)?)?;
    module.add_function(wrap_pyfunction!(digest_of_rows, module)?)?;
    module.add_function(wrap_pyfunction!(crc32c_by_table, module)?)?;
    module.add_function(wrap_pyfunction!(decode, module)?)?;
    module.add_function(wrap_pyfunction!(encode_records, module)?)?;
    module.add_function(wrap_pyfunction!(encode_headers, module)?)?;
    module.add_function(wrap_pyfunction!(murmur2, module)?)?;
    module.add_function(wrap_pyfunction!(murmur2_of_all, module)?)?;
    Ok(())
}
