// Numbers for people.

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (count >= 1024 && unit + 1 < units.length) {
    count /= 1024;
    ++unit;
  }
  return `${unit === 0 || count >= 100 ? Math.round(count) : count.toPrecision(3)} ${units[unit]}`;
}

/** Shortest with so many digits. */
export function number(value, digits = 6) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "missing" : value > 0 ? "∞" : "−∞";
  return String(Number(value.toPrecision(digits)));
}

export function ratio(size, stored) {
  if (!(stored > 0)) return "–";
  return `${size / stored >= 100 ? Math.round(size / stored) : (size / stored).toPrecision(3)}×`;
}

/** Round numbers in [low, high], about `wanted` of them. */
export function ticks(low, high, wanted) {
  if (!(high > low) || !Number.isFinite(high - low)) return [];
  const rough = (high - low) / Math.max(1, wanted);
  const decade = 10 ** Math.floor(Math.log10(rough));
  const step = decade * [1, 2, 5, 10].find((lead) => lead * decade >= rough * (1 - 1e-9));
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step && found.length < 100; ++i) found.push(i * step);
  return found;
}
