//! How each promise is measured.

use super::rows::Row;
use super::samples::Samples;
use super::{agent, environments, mcp, network, tools};
use cellblock::{Cell, Host, Limits, Session, SessionBuilder, Strategy};
use std::time::Duration;

/// Where it is measured.
pub(crate) struct Bench {
    pub(crate) host: Host,
    pub(crate) repetitions: usize,
}

pub(crate) const GAP: Duration = Duration::from_millis(20);
const SEGFAULT: &str = "import ctypes; ctypes.string_at(0)";

impl Bench {
    pub(crate) async fn measure(&self, row: Row) -> anyhow::Result<Samples> {
        let values = match row {
            Row::PooledSession => self.pooled_session().await?,
            Row::SessionOnDemand => self.sessions_on_demand(GAP).await?,
            Row::DirectCell => self.cells(Strategy::Direct, "1+1", Duration::ZERO).await?,
            Row::ArmedCell => self.cells(Strategy::Process, "x = 1", GAP).await?,
            Row::UnchangingCell => self.cells(Strategy::Process, "1+1", Duration::ZERO).await?,
            Row::ChangingCell => {
                self.cells(Strategy::Process, "x = 1", Duration::ZERO)
                    .await?
            }
            Row::Segfault => self.recoveries(Cell::new(SEGFAULT), Duration::ZERO).await?,
            Row::TimeOut => {
                let limit = Duration::from_millis(50);
                let endless = Cell::new("while True: pass").timeout(limit.as_secs_f64());
                self.recoveries(endless, limit).await?
            }
            Row::OutOfMemory => self.memory_kills().await?,
            Row::Undo => self.undos().await?,
            Row::Fork => self.forks().await?,
            Row::ToolCall => tools::single_calls(self.session(Strategy::Direct).await?).await?,
            Row::ThousandCalls => {
                tools::thousand_calls(self.session(Strategy::Direct).await?, self.repetitions / 5)
                    .await?
            }
            Row::OverlappingCalls => {
                tools::overlapping_calls(
                    self.session(Strategy::Direct).await?,
                    self.repetitions / 5,
                )
                .await?
            }
            Row::Mcp => {
                mcp::added(self.session(Strategy::Process).await?, self.repetitions).await?
            }
            Row::Proxy => network::added(&self.host, self.repetitions).await?,
            Row::ProxyThroughput => network::throughput(&self.host).await?,
            Row::Checking => tools::checks(self.repetitions)?,
            Row::CachedEnvironment => {
                environments::found_again(&self.host, self.repetitions).await?
            }
            Row::WarmEnvironment => {
                environments::pooled_session(&self.host, self.repetitions).await?
            }
            Row::IdleSession => self.idle_sessions().await?,
            Row::Flood => self.floods().await?,
            Row::Exec => self.commands()?,
            Row::LargeFrame => self.beside_large_data().await?,
            Row::AgentStep => agent::steps(self.repetitions / 10).await?,
            Row::AgentMemory => agent::memory(self.repetitions / 20).await?,
            Row::RunsAtOnce => agent::at_once(&self.host, self.repetitions / 20).await?,
            Row::FirstRequest => agent::first_requests(self.repetitions / 5).await?,
        };
        Ok(Samples::new(values))
    }

    pub(super) async fn session(&self, strategy: Strategy) -> anyhow::Result<Session> {
        let session = SessionBuilder::new()
            .host(&self.host)
            .strategy(strategy)
            .start()
            .await?;
        session.run("x = 0").await?;
        Ok(session)
    }

    /// A session that no pool holds.
    pub(super) async fn made_on_demand(&self, memory: u64) -> anyhow::Result<Session> {
        let limits = Limits {
            memory,
            ..Limits::default()
        };
        Ok(SessionBuilder::new()
            .host(&self.host)
            .limits(limits)
            .start()
            .await?)
    }
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
