// How numbers and times are written.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const one = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const NONE = "–";

export const count = (n) => (n === null || n === undefined ? NONE : n >= 1e7 ? compact.format(n) : whole.format(n));

export function rate(n) {
  if (n === null || n === undefined) return NONE;
  if (n > 0 && n < 0.1) return n.toFixed(2);
  return n < 100 ? one.format(n) : whole.format(n);
}

export function bytes(n) {
  if (n === null || n === undefined) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1000;
    unit += 1;
  }
  return `${unit && n < 100 ? one.format(n) : whole.format(n)} ${units[unit]}`;
}

export function ms(n) {
  if (n === null || n === undefined) return NONE;
  if (n >= 1000) return `${one.format(n / 1000)} s`;
  return n < 10 ? `${one.format(n)} ms` : `${whole.format(n)} ms`;
}

// Without decimals where there is nothing behind the point: for the marks of an axis.
export const plain = (text) => text.replace(/\.0+(?=\D|$)/, "");

export function span(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return NONE;
  if (seconds > 0 && seconds < 9.95) return `${plain(one.format(seconds))} s`;
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// Never 100% of what is not all, nor 0% of what is not nothing.
export function percent(share) {
  if (share === null || share === undefined) return NONE;
  const part = 100 * share;
  return `${one.format(part > 0 && part < 100 ? Math.min(99.9, Math.max(0.1, part)) : part)}%`;
}

export const clock = (epoch) => new Date(epoch * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

export const words = (text) => text.replaceAll("_", " ");

// Times of the server: its clock may differ from that of the browser.
let ahead = 0;
export const serverTime = (at) => {
  ahead = Date.parse(at) - Date.now();
};
export const until = (at) => (at ? (Date.parse(at) - Date.now() - ahead) / 1000 : null);
export const ago = (at) => (at ? `${span(Math.max(0, -until(at)))} ago` : NONE);

export const day = (at) => (at ? `${at.slice(0, 19).replace("T", " ")} UTC` : NONE);
