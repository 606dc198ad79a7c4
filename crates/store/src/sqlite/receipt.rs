//! The receipts of one command: one value beside its events, in order of commit.
//!
//! Nothing writes a row of `event` twice, so a receipt that is there stays as it is (C-125); which ones a call has is in
//! its own row.

use protocol::call::Receipt;
use protocol::id::{ReceiptId, RunId};
use protocol::json::Packed;
use rusqlite::Row;

use super::codec::{Malformed, Reader, Writer};
use super::fault::{Fault, Fields};

/// The columns that [`read`] reads, of the table or alias `e`.
pub(super) const COLUMNS: &str = "e.n, e.receipts";

/// The receipts of a row that has some.
pub(super) fn read(row: &Row<'_>, run: RunId) -> Result<Vec<Receipt>, Fault> {
    let mut f = Fields::new(row, "event");
    f.named(run);
    f.int("n")?;
    let receipts = f.blob("receipts")?;
    Ok(f.packed(receipts, "receipts", RECEIPTS, |reader| read_all(reader, run))?)
}

const RECEIPTS: u8 = 1;

/// The value of a command that wrote some.
pub(super) fn write(receipts: &[Receipt]) -> Option<Vec<u8>> {
    let size: usize = receipts.iter().map(|receipt| receipt.record.as_bytes().len() + 96).sum();
    let mut writer = Writer::with_capacity(1 + size);
    writer.byte(RECEIPTS);
    for receipt in receipts {
        writer.id(receipt.call).uint(receipt.n).digest(receipt.id.digest()).digest(receipt.digest);
        writer.bytes(receipt.record.as_bytes());
    }
    (!receipts.is_empty()).then(|| writer.done())
}

fn read_all(reader: &mut Reader<'_>, run: RunId) -> Result<Vec<Receipt>, Malformed> {
    let mut receipts = Vec::new();
    while !reader.is_empty() {
        let (call, n) = (reader.id()?, reader.u32()?);
        let (id, digest) = (ReceiptId::new(reader.digest()?), reader.digest()?);
        let record = Packed::from_stored(reader.bytes()?).ok_or(Malformed("packed canonical JSON"))?;
        receipts.push(Receipt { run, call, n, id, digest, record });
    }
    Ok(receipts)
}
