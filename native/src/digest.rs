//! The sum of the hashes of rows: `spark/sink/digest.py`, which is its oracle.

use crate::checksum::crc32c;
use crate::encode::{long_at, Column};

const SIDE_BY_SIDE_BYTES: usize = 256;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
const FINISH: u64 = 0xbf58_476d_1ce4_e5b9;
const NULL: u64 = 0xd6e8_feb8_6659_fd93;

/// One column of the rows.
pub enum Field<'a> {
    /// It is written like one of nulls.
    Missing,
    Binary(Column<'a>),
    /// The hashes themselves, eight bytes each.
    Hashes(&'a [u8]),
}

impl Field<'_> {
    /// None where the buffers do not have the row.
    #[inline(always)]
    fn hash(&self, row: usize) -> Option<u64> {
        match self {
            Field::Missing => Some(NULL),
            Field::Binary(column) => Some(column.get(row)?.map_or(NULL, hash)),
            Field::Hashes(hashes) => long_at(hashes, row).map(|hash| hash as u64),
        }
    }
}

/// None where a column does not have so many rows.
pub fn digest(fields: &[Field], count: usize) -> Option<u64> {
    let mut sum = 0u64;
    for row in 0..count {
        let mut total = 0u64;
        for field in fields {
            total = total
                .wrapping_mul(MULTIPLIER)
                .wrapping_add(field.hash(row)?);
        }
        sum = sum.wrapping_add(mixed(total));
    }
    Some(sum)
}

#[inline(always)]
fn hash(data: &[u8]) -> u64 {
    let size = data.len() as u64;
    mixed(match data.len() {
        0 => 0,
        1..=7 => {
            // The length takes the lowest byte.
            let bytes = data.iter().zip(1..);
            bytes.fold(size, |hash, (byte, place)| {
                hash | u64::from(*byte) << (8 * place)
            })
        }
        8..=SIDE_BY_SIDE_BYTES => words(data),
        _ => size ^ u64::from(crc32c(data)) << 32,
    })
}

/// Word after word; the last is the last eight bytes.
#[inline(always)]
fn words(data: &[u8]) -> u64 {
    let mut hash = data.len() as u64;
    let body = &data[..data.len() - 1];
    for word in body.chunks_exact(8) {
        hash = (hash ^ little_endian(word)).wrapping_mul(MULTIPLIER);
        hash ^= hash >> 29;
    }
    (hash ^ little_endian(&data[data.len() - 8..])).wrapping_mul(MULTIPLIER)
}

#[inline(always)]
fn little_endian(word: &[u8]) -> u64 {
    word.try_into().map_or(0, u64::from_le_bytes)
}

#[inline(always)]
fn mixed(value: u64) -> u64 {
    let mixed = (value ^ value >> 32).wrapping_mul(FINISH);
    mixed ^ mixed >> 29
}
