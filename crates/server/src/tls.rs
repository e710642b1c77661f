//! TLS: from PEM files to a handshake.

use std::{path::PathBuf, sync::Arc};

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use sys::Sys;

use crate::{
    Tls,
    files::{self, BadFile},
};

/// Certificate or key files that make no TLS server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadTls {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] BadFile),
    /// A file is not what it should be.
    #[error("{path} does not hold {what} in PEM form")]
    Pem {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// Certificate and key do not go together.
    #[error("the certificate and the key cannot be used: {0}")]
    Rejected(#[from] rustls::Error),
}

pub(crate) async fn configure(sys: &Sys, tls: &Tls) -> Result<Arc<ServerConfig>, BadTls> {
    let chain = certificates(&files::read(sys, &tls.certificates).await?)
        .ok_or_else(|| BadTls::Pem { path: tls.certificates.clone(), what: "certificates" })?;
    let key = PrivateKeyDer::from_pem_slice(&files::read(sys, &tls.key).await?)
        .map_err(|_| BadTls::Pem { path: tls.key.clone(), what: "a private key" })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config.into())
}

fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
    (!chain.is_empty()).then_some(chain)
}
