//! Whether this process could make a call now: for whoever is about to say yes to it.

use crate::inner::Inner;
use crate::tools::Grant;
use protocol::json::canonicalize;

/// What the tool lacks here, such as a secret that is not set. A tool that is not registered lacks nothing here; its calls
/// are refused by the gate.
pub(crate) async fn lacking(inner: &Inner, tool: &str, version: &str) -> Option<String> {
    let registry = inner.ledger.registry();
    let row = registry.tools.get(tool)?.get(version)?;
    let stored = inner.ledger.blob(row.grant).await.ok()??;
    let grant = Grant::read(&canonicalize(&stored).ok()?).ok()?;
    inner.connectors.ready(&row.spec, &grant).err().map(|unready| unready.detail)
}
