//! Cellblock over HTTP: one port for programs and browsers, many users, one file of state.
//!
//! A [`Server`] holds the sessions, runs and chats of its users. Everything that outlives the process is in its data directory: a SQLite
//! file for users and indexes, and the journals and records that sessions and runs keep anyway. [`Server::router`] answers requests
//! without a socket; [`Server::serve`] answers them on a listener and drains when it stops.
#![forbid(unsafe_code)]

mod agents;
mod auth;
mod backup;
mod clock;
mod cluster;
mod copies;
mod data_directory;
mod demo;
mod e2b;
mod error;
mod http;
mod jupyter;
mod librechat;
mod live;
mod metrics;
mod places;
mod quotas;
mod routes;
mod server;
mod sessions;
mod snapshots;
mod state;
mod store;
mod tls;
mod web;

pub use agents::AgentSetup;
pub use auth::{Authentication, OpenIdOptions};
pub use backup::{backup, restore};
pub use clock::Clock;
pub use cluster::ClusterOptions;
pub use demo::Demo;
pub use error::{ApiError, ServerError};
pub use quotas::Quotas;
pub use routes::openapi::document as openapi_document;
pub use server::{E2bOptions, Server, ServerOptions, Transport};
pub use state::AppState;
pub use store::StoreError;
pub use tls::Tls;
