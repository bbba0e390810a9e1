//! A new set of rules: prepared, recorded, served, in this order and in one function, whoever asks. A signal, an RPC and
//! the watch of the folder all come here.

use std::sync::Arc;

use crate::{
    audit::{Activation, Draft},
    diag,
};

use super::{
    Service,
    requests::{Named, RequestError, Turn},
    rules::{LoadError, Prepared, RefusedLoad, Served, Trigger},
    writer::AuditError,
};

/// Why the rules on disk do not serve.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// They cannot.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The store cannot be read, or the request's name stands for another one.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// It could not be recorded that they serve, so they do not.
    #[error("not recorded: {0}")]
    Audit(#[from] AuditError),
}

impl Service {
    /// Records that the first set serves; and that another one was refused, where it serves in its place.
    pub async fn activate(&self) -> Result<(), AuditError> {
        let refused = self.rules.stale().borrow().as_ref().map(|stale| refusal(&stale.refused));
        let drafts = refused.into_iter().chain(activation(&self.rules.current())).collect();
        let kept = self.rules.take_first();
        self.audit.place().await?.activate(None, drafts, kept).done().await.map(|_| ())
    }

    /// Loads the rules as they now stand on disk and serves them.
    pub async fn reload(&self) -> Result<Arc<Served>, ReloadError> {
        self.reload_for(Trigger::Asked, None).await
    }

    /// The same for a request, which may have a name: one that was answered is answered with what is served now.
    pub async fn reload_for(&self, trigger: Trigger, named: Option<Named>) -> Result<Arc<Served>, ReloadError> {
        let _turn = match self.turn(named.as_ref()).await? {
            Turn::Repeated(_) => return Ok(self.rules.current()),
            new => new,
        };
        // The candidate is loaded beside: how that went is in the log and in its status.
        let beside = async {
            if let (Trigger::Asked, Some(shadow)) = (trigger, &self.shadow) {
                let _ = shadow.reload(Trigger::Asked).await;
            }
        };
        tokio::join!(self.load_rules(trigger, named), beside).0
    }

    async fn load_rules(&self, trigger: Trigger, named: Option<Named>) -> Result<Arc<Served>, ReloadError> {
        let alone = self.rules.alone().await;
        match self.rules.prepare(&alone, trigger).await? {
            Prepared::Same(served) => {
                self.rules.confirm(&alone);
                Ok(served)
            }
            Prepared::New { served, kept } => {
                let place = self.audit.place().await?;
                // From here on the record is ahead of every judgement under the new set. A store that fails now has
                // made the service stop serving, and stores it first when it works again.
                if let Err(e) = place.activate(named, activation(&served), kept).done().await {
                    tracing::error!(error = %e, "the activation of rules is not yet stored");
                }
                self.rules.serve(&alone, served.clone());
                self.rules_changed.notify_one();
                Ok(served)
            }
            Prepared::Refused(refused) => {
                if let Err(e) = self.record_refusal(&refused).await {
                    tracing::error!(error = %e, "the refusal of rules is not recorded");
                }
                self.rules.refuse(&alone, refused.clone());
                Err(LoadError::Refused(refused).into())
            }
        }
    }

    async fn record_refusal(&self, refused: &RefusedLoad) -> Result<(), AuditError> {
        self.audit.place().await?.record_durably(vec![refusal(refused)]).done().await.map(|_| ())
    }

    /// What is wrong with the rules as they now stand on disk; only warnings if they could serve.
    pub async fn validate(&self) -> Result<Vec<diag::Record>, LoadError> {
        self.rules.validate().await
    }
}

fn activation(served: &Served) -> Vec<Draft> {
    let activated = |pack| Draft::Activated(Activation { pack, commit: served.commit.clone() });
    served.pack_refs().into_iter().map(activated).collect()
}

fn refusal(refused: &RefusedLoad) -> Draft {
    Draft::Refused(Arc::new(refused.refusal()))
}
