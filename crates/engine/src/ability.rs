//! What this worker can run: looked at by names and digests, so that it costs nothing to state with every claim.

use crate::engine::Image;
use crate::inner::Inner;
use crate::register::SCRIPT_STATE;
use protocol::able::Abilities;
use protocol::digest::Digest;
use protocol::registry::Registry;
use std::collections::BTreeSet;

/// Looks at the images that registered programs want, the migrators, and the code of this build.
pub(crate) fn look(inner: &Inner) -> Abilities {
    let registry = inner.ledger.registry();
    let code: BTreeSet<_> =
        inner.workflows.all().map(|code| (code.key().to_owned(), code.revision(), code.source())).collect();
    let current = inner.workflows.all().map(|code| code.schema()).chain([SCRIPT_STATE]);
    let formats = current.flat_map(|schema| inner.migrators.leading_to(schema)).map(str::to_owned).collect();
    Abilities { engine: Some(sandbox::ENGINE_ID.to_owned()), images: images(inner, &registry), formats, code }
}

/// The newest image, and every older one that a program is pinned to and the cache has.
fn images(inner: &Inner, registry: &Registry) -> BTreeSet<Digest> {
    let newest = match &inner.image {
        Image::Found(sandbox) => Some(sandbox.image().digest),
        Image::Missing { .. } => None,
    };
    let patterns = registry.workflows.values().flat_map(|workflow| workflow.patterns.values());
    let wanted: BTreeSet<_> = patterns.filter_map(|pattern| pattern.manifest.image).collect();
    wanted.into_iter().filter(|image| inner.has_image(*image).is_ok()).chain(newest).collect()
}
