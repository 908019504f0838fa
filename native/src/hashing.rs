//! Kafka's 32-bit murmur2 (Utils.murmur2).

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;

/// Keys that are hashed side by side: each word waits for the one before it, but not for those of
/// another key.
pub const ABREAST: usize = 4;

pub fn murmur2(data: &[u8]) -> u32 {
    finish(begin(data), data)
}

/// As many words of all keys as the shortest has side by side, then each by itself.
pub fn murmur2_abreast(keys: [&[u8]; ABREAST]) -> [u32; ABREAST] {
    let mut hashes = keys.map(begin);
    let common = keys.iter().map(|key| key.len()).min().unwrap_or(0) & !3;
    let [a, b, c, d] = keys.map(|key| key[..common].chunks_exact(4));
    for (((a, b), c), d) in a.zip(b).zip(c).zip(d) {
        for (hash, word) in hashes.iter_mut().zip([a, b, c, d]) {
            *hash = with_word(*hash, word);
        }
    }
    for (hash, key) in hashes.iter_mut().zip(keys) {
        *hash = finish(*hash, &key[common..]);
    }
    hashes
}

#[inline(always)]
fn begin(data: &[u8]) -> u32 {
    // Java has lengths of 31 bits.
    SEED ^ data.len() as u32
}

#[inline(always)]
fn with_word(hash: u32, word: &[u8]) -> u32 {
    let mut word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    word = word.wrapping_mul(MULTIPLIER);
    word ^= word >> 24;
    hash.wrapping_mul(MULTIPLIER) ^ word.wrapping_mul(MULTIPLIER)
}

/// The hash after the rest of the key.
#[inline(always)]
fn finish(mut hash: u32, data: &[u8]) -> u32 {
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        hash = with_word(hash, word);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ hash >> 15
}
