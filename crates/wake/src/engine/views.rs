//! Subscriptions as their clients and workers see them.

use std::collections::BTreeMap;

use log::Unavailable;
use wire::StreamPath;

use super::{Engine, command::Command, follow::unavailable};
use crate::{
    ChangeError, LinkKind, LinkView, Listed, Page, Setback, SubscriptionId, View, Work,
    book::Book,
    caps::{LINKS_MAX, LIST_PAGE_MAX},
    open_work::{Pass, marks::Marks},
    subscription::{Link, Subscription, Wake},
};

impl Engine {
    /// Adds the streams that the pattern finds and that have no links, as far as one view holds.
    /// All of them may be very many, so they are listed here and not by the owner, which judges
    /// a page at a time between other work.
    pub(super) async fn complete(
        &self,
        id: &SubscriptionId,
        mut view: View,
    ) -> Result<View, ChangeError> {
        let Some(pattern) = view.config.pattern.clone() else { return Ok(view) };
        let _turn = self.views.acquire().await.map_err(|_| Unavailable::Closing)?;
        let links = std::mem::take(&mut view.links).into_iter();
        let mut links: BTreeMap<_, _> = links.map(|link| (link.path.clone(), link)).collect();
        let mut pass = Pass::new(pattern);
        while links.len() < LINKS_MAX {
            let page = pass.page(&*self.log).await.map_err(unavailable)?;
            let (streams, created_at) = (page.streams, view.created_at);
            let asked = |reply| Command::Cursors { id: id.clone(), created_at, streams, reply };
            for link in self.ask(asked).await? {
                if links.len() < LINKS_MAX || links.contains_key(&link.path) {
                    links.insert(link.path.clone(), link);
                }
            }
            if !pass.go_on(page.next) {
                break;
            }
        }
        view.links = links.into_values().collect();
        Ok(view)
    }
}

/// The subscription with the streams that it has links to.
pub(super) fn view(subscription: &Subscription) -> View {
    let links = subscription.links.iter();
    View {
        config: subscription.config.clone(),
        links: links.map(|(path, link)| link_view(path, link)).collect(),
        created_at: subscription.created_at,
        is_failing: subscription.is_failing(),
    }
}

/// Those of these streams that the subscription follows: by a link, or at rest by the pattern.
pub(super) fn cursors(
    marks: &Marks,
    subscription: &Subscription,
    streams: &[log::Listed],
) -> Vec<LinkView> {
    let cursor = |log::Listed { path, head }: &log::Listed| {
        if let Some(link) = subscription.links.get(path) {
            return Some(link_view(path, link));
        }
        let acked = marks.get(head.incarnation).filter(|_| subscription.config.covers(path))?;
        Some(LinkView { path: path.clone(), kind: LinkKind::Glob, acked: Some(acked) })
    };
    streams.iter().filter_map(cursor).collect()
}

pub(super) fn page(book: &Book, after: Option<&SubscriptionId>, limit: usize) -> Page {
    let limit = limit.clamp(1, LIST_PAGE_MAX);
    let mut rest = book.after(after);
    let subscriptions: Vec<Listed> =
        rest.by_ref().take(limit).map(|(id, subscription)| listed(id, subscription)).collect();
    let has_more = rest.next().is_some();
    let next = subscriptions.last().filter(|_| has_more).map(|last| last.id.clone());
    Page { subscriptions, next }
}

fn listed(id: &SubscriptionId, subscription: &Subscription) -> Listed {
    Listed {
        id: id.clone(),
        delivery: subscription.config.delivery.clone(),
        pattern: subscription.config.pattern.clone(),
        description: subscription.config.description.clone(),
        links_count: subscription.links.len(),
        created_at: subscription.created_at,
        is_failing: subscription.is_failing(),
    }
}

pub(super) fn setback(subscription: &Subscription, last_error: Option<&String>) -> Option<Setback> {
    let next_attempt_at = subscription.next_attempt_at()?;
    Some(Setback { last_error: last_error.cloned(), next_attempt_at })
}

pub(super) fn link_view(path: &StreamPath, link: &Link) -> LinkView {
    let kind = if link.is_explicit { LinkKind::Explicit } else { LinkKind::Glob };
    LinkView { path: path.clone(), kind, acked: link.acked }
}

/// What a wake asks for, as it stands now.
pub(super) fn work(subscription: &Subscription, wake: &Wake) -> Vec<Work> {
    let tasks = wake.streams.iter();
    let linked = tasks.filter_map(|task| Some((task, subscription.link_of(task)?)));
    linked.map(|(task, link)| Work { link: link_view(&task.path, link), tail: task.tail }).collect()
}
