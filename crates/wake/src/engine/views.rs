//! Subscriptions as their clients and workers see them.

use std::collections::BTreeMap;

use log::{Log, Unavailable};
use wire::StreamPath;

use super::follow::unavailable;
use crate::{
    LinkKind, LinkView, Listed, Page, Setback, SubscriptionId, View, Work,
    book::Book,
    caps::{LINKS_MAX, LIST_PAGE_MAX},
    open_work::{Pass, marks::Marks},
    subscription::{Link, Subscription, Wake},
};

/// The subscription with all streams that it follows, as far as one view holds: those that are at
/// rest have no links, but watermarks.
pub(super) async fn view(
    log: &dyn Log,
    marks: &Marks,
    subscription: &Subscription,
) -> Result<View, Unavailable> {
    let config = &subscription.config;
    let links = subscription.links.iter();
    let mut links: BTreeMap<_, _> =
        links.map(|(path, link)| (path.clone(), link_view(path, link))).collect();
    let mut pass = config.pattern.clone().map(Pass::new);
    while let Some(current) = &mut pass {
        let page = current.page(log).await.map_err(unavailable)?;
        for log::Listed { path, head } in page.streams {
            let acked = marks.get(head.incarnation);
            if acked.is_some() && config.covers(&path) && links.len() < LINKS_MAX {
                let view = LinkView { path: path.clone(), kind: LinkKind::Glob, acked };
                links.entry(path).or_insert(view);
            }
        }
        if links.len() >= LINKS_MAX || !current.go_on(page.next) {
            pass = None;
        }
    }
    Ok(View {
        config: config.clone(),
        links: links.into_values().collect(),
        created_at: subscription.created_at,
        is_failing: subscription.is_failing(),
    })
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
