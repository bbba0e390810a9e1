//! The page of figures for Prometheus: what `Rules.GetStatus` says in numbers, over HTTP at `/metrics`. It counts nothing
//! of its own; each answer is the state of the service at that moment.

mod figures;

use std::{io, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::service::Service;

/// The form of the page.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where the page will be served; bound before anything else is, so that a port that is taken is found early.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves the page until the task is aborted.
pub fn serve(listener: TcpListener, service: Arc<Service>) -> JoinHandle<()> {
    let pages = Router::new().route("/metrics", get(metrics)).with_state(service);
    tokio::spawn(async move {
        if let Err(e) = axum::serve(listener, pages).await {
            tracing::error!(error = %e, "the page of figures is served no longer");
        }
    })
}

async fn metrics(State(service): State<Arc<Service>>) -> Response {
    // The store may be in the middle of a commit: it is asked off the serving threads.
    match tokio::task::spawn_blocking(move || figures::page(&service)).await {
        Ok(Ok(page)) => ([(CONTENT_TYPE, OPEN_METRICS)], page).into_response(),
        Ok(Err(e)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{e}\n")).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the figures cannot be had\n").into_response(),
    }
}
