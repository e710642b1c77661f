//! A log that is far away: after so many appends the network to it is gone, until it is back.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use log::{Answer, Append, AppendError, Appended, Layer, Log};
use tokio::sync::watch;
use wire::Address;

/// Appends beyond the first ones are on their way until the network is back. Reads get through.
#[derive(Debug)]
pub(crate) struct Cut {
    inner: Arc<dyn Log>,
    appends_left: AtomicUsize,
    is_back: watch::Sender<bool>,
}

impl Cut {
    pub(crate) fn after(appends: usize, inner: &Arc<dyn Log>) -> Arc<Self> {
        let (appends_left, is_back) = (AtomicUsize::new(appends), watch::Sender::new(false));
        Arc::new(Self { inner: inner.clone(), appends_left, is_back })
    }

    /// What was on its way arrives.
    pub(crate) fn mend(&self) {
        self.is_back.send_replace(true);
    }
}

impl Layer for Cut {
    fn behind(&self) -> &dyn Log {
        &*self.inner
    }

    fn append<'a>(
        &'a self,
        address: &'a Address,
        append: Append,
    ) -> Answer<'a, Result<Appended, AppendError>> {
        let less = |left: usize| left.checked_sub(1);
        let passed = self.appends_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        Box::pin(async move {
            if passed.is_err() {
                let _ = self.is_back.subscribe().wait_for(|is_back| *is_back).await;
            }
            self.inner.append(address, append).await
        })
    }
}
