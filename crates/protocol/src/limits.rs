pub const BODY_BYTES: usize = 1_048_576;
pub const REQUEST_BYTES: usize = BODY_BYTES + 4_096;
pub const JSON_DEPTH: usize = 64;
pub const JSON_NODES: usize = 16_384;
pub const NUMBER_BYTES: usize = 256;
pub const NUMBER_EXPONENT: u32 = 400;
