// Numbers and times for readers.

const whole = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });

export function count(value) {
  return value === null || value === undefined ? "–" : whole.format(value);
}

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

/** 1,234,567 -> 1.2 MB */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0;
  let left = Math.abs(value);
  while (left >= 999.95 && unit < UNITS.length - 1) {
    left /= 1000;
    unit += 1;
  }
  return `${value < 0 ? "-" : ""}${unit === 0 ? whole.format(left) : short.format(left)} ${UNITS[unit]}`;
}

export function rate(bytesPerSecond) {
  return bytesPerSecond === null || bytesPerSecond === undefined ? "–" : `${bytes(bytesPerSecond)}/s`;
}

/** 90061000 -> 1 d 1 h */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${short.format(s)} s`;
  const parts = [
    [Math.floor(s / 86400), "d"],
    [Math.floor(s / 3600) % 24, "h"],
    [Math.floor(s / 60) % 60, "min"],
    [Math.floor(s) % 60, "s"],
  ].filter(([n]) => n > 0);
  return parts.slice(0, 2).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

const two = (n) => String(n).padStart(2, "0");

/** 14:03:09.125, in the reader's time zone */
export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/** 2026-11-16 14:03:09.125 */
export function timestamp(ms) {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return String(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}

export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}
