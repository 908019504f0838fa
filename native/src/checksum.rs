//! CRC-32C of one field: with the processor's instruction where it has one.
#![allow(unsafe_code)]

const POLYNOMIAL: u32 = 0x82f6_3b78;
const TABLE: [u32; 256] = table();

pub fn crc32c(data: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction; nothing else is asked of the caller.
        return unsafe { by_instruction(data) };
    }
    by_table(data)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
unsafe fn by_instruction(data: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u64, _mm_crc32_u8};
    let mut words = data.chunks_exact(8);
    let mut sum = u64::from(u32::MAX);
    for word in &mut words {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        sum = _mm_crc32_u64(sum, u64::from_le_bytes(bytes));
    }
    let rest = words.remainder().iter();
    !rest.fold(sum as u32, |sum, byte| _mm_crc32_u8(sum, *byte))
}

/// What processors do that have no instruction for it, or none that is known here.
pub fn by_table(data: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| (sum >> 8) ^ TABLE[usize::from(sum as u8 ^ byte)];
    !data.iter().fold(u32::MAX, step)
}

const fn table() -> [u32; 256] {
    let mut made = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut sum = index as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = (sum >> 1) ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        made[index] = sum;
        index += 1;
    }
    made
}
