//! Kafka's 32-bit murmur2 (Utils.murmur2).

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;

pub fn murmur2(data: &[u8]) -> u32 {
    // Java has lengths of 31 bits.
    let mut hash = SEED ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        word = word.wrapping_mul(MULTIPLIER);
        word ^= word >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ word.wrapping_mul(MULTIPLIER);
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
