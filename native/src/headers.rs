//! The headers of rows as records have them: `encode_headers` of `wire/columnar_encode.py`.

use crate::encode::{long_at, Column, Failed};
use crate::varint::{put, zigzag};

/// `per_row` has one long for each row; names and values are those of all rows one after the other.
/// Bounds and data of an Arrow array.
pub fn encode(
    per_row: &[u8],
    keys: &Column,
    values: &Column,
) -> Result<(Vec<i32>, Vec<u8>), Failed> {
    let rows = per_row.len() / 8;
    let (mut bounds, mut data) = (Vec::with_capacity(rows + 1), Vec::new());
    bounds.push(0);
    let mut item = 0;
    for row in 0..rows {
        let count = long_at(per_row, row)
            .filter(|count| *count >= 0)
            .ok_or(Failed::Input)?;
        put(&mut data, zigzag(count));
        for _ in 0..count {
            let key = keys.get(item).flatten().ok_or(Failed::Input)?;
            put(&mut data, zigzag(key.len() as i64));
            data.extend_from_slice(key);
            match values.get(item).ok_or(Failed::Input)? {
                Some(value) => {
                    put(&mut data, zigzag(value.len() as i64));
                    data.extend_from_slice(value);
                }
                None => data.push(1),
            }
            item += 1;
        }
        bounds.push(i32::try_from(data.len()).map_err(|_| Failed::Memory)?);
    }
    Ok((bounds, data))
}
