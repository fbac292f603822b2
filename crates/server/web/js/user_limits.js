// The limits of one user, as an administrator sets them.

import { ask } from "./dom.js";
import { t } from "./texts.js";

/** The limits with the unit in which they are shown. @type {Array<[string, number]>} */
const LIMITS = [["sessions", 1], ["memory", 2 ** 30], ["disk", 2 ** 30], ["cells_per_minute", 1], ["seconds_per_day", 3600], ["cost_per_day", 1], ["runs", 1]];

/**
 * Asks for the limits of a user. A field that is left empty keeps what it was; without a value the cost has no limit.
 * @param {string} name
 * @param {Record<string, number | null>} quotas
 * @returns {Promise<Record<string, number | null> | null>}
 */
export async function askLimits(name, quotas) {
  const shown = (/** @type {string} */ limit, /** @type {number} */ unit) => (quotas[limit] === null ? "" : String(Math.round(((quotas[limit] ?? 0) / unit) * 100) / 100));
  const fields = LIMITS.map(([limit, unit]) => ({ name: limit, label: t(`admin.limit.${limit}`), type: "number", value: shown(limit, unit) }));
  const values = await ask({ title: t("admin.limits", { name }), confirm: t("app.save"), cancel: t("app.cancel"), fields });
  if (!values) return null;
  return Object.fromEntries(LIMITS.map(([limit, unit]) => {
    const text = values[limit].trim();
    if (text === "") return [limit, limit === "cost_per_day" ? null : quotas[limit]];
    // What was not changed keeps what rounding would take.
    if (text === shown(limit, unit)) return [limit, quotas[limit]];
    const amount = Number(text) * unit;
    return [limit, limit === "cost_per_day" ? amount : Math.round(amount)];
  }));
}
