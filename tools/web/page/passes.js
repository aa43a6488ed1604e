// What to ask for, from coarse to fine, and what comes back.

import { ask } from "./api.js";

export const COARSEST = 3;
const SHORT = 16; // axes of fewer points are never thinned
const SMALL = 4096; // arrays of as many elements have no levels

/** Elements of one axis within [low, high), at multiples of the step. */
function part(axis, extent, low, high, step) {
  const start = Math.max(0, Math.floor((low - step / 2) / step) * step);
  const stop = Math.min(extent, Math.max(Math.ceil(high + step / 2), start));
  return { axis, start, stop, step, count: Math.ceil((stop - start) / step) };
}

/**
 * The passes for the visible part of a slice, coarse first: {level, rows, columns}, rows null for a line.
 *   view: {rows: {axis, low, high, pixels} or null, columns: the same}; finest: no level below is asked for
 */
export function plan(shape, view, finest, mostPoints) {
  const elements = shape.reduce((product, extent) => product * extent, 1);
  const axes = [view.rows, view.columns].filter((one) => one !== null);
  const thinned = axes.filter((one) => shape[one.axis] >= SHORT);
  const fits = (one) => Math.max(0, Math.floor(Math.log2((one.high - one.low) / one.pixels) + 1e-9));
  const exponents = new Map(axes.map((one) => [one, thinned.includes(one) ? fits(one) : 0]));
  const make = (level) => {
    const [rows, columns] = [view.rows, view.columns].map((one) => {
      if (one === null) return null;
      const exponent = thinned.includes(one) ? Math.max(level, exponents.get(one)) : 0;
      return part(one.axis, shape[one.axis], one.low, one.high, 2 ** exponent);
    });
    return { level, rows, columns };
  };
  const points = (pass) => (pass.rows?.count ?? 1) * (pass.columns?.count ?? 1);
  const left = (one) => (one.high - one.low) / 2 ** exponents.get(one);
  while (points(make(0)) > mostPoints) {
    const longest = axes.reduce((best, one) => (left(one) > left(best) ? one : best));
    exponents.set(longest, exponents.get(longest) + 1);
  }
  if (elements <= SMALL) return [make(0)];
  // Finer levels than the steps of the axes would not show.
  const seen = thinned.length > 0 ? Math.min(COARSEST, ...thinned.map((one) => exponents.get(one))) : 0;
  const passes = [];
  for (let level = COARSEST; level >= Math.max(seen, Math.min(finest, COARSEST)); --level) passes.push(make(level));
  return passes;
}

const text = (one) => `${one.axis}:${one.start}:${one.stop}:${one.step}`;

const EXACT_IN_FLOAT = new Set(["f32", "f16", "bf16", "u8", "i8", "u16", "i16"]);

/** One pass: {values, rows, columns, rowStart, ..., level, low, high, missing, bytes}; low and high null without values. */
export async function fetchPass(what, pass, options, signal) {
  const type = options.compact ? "u16" : EXACT_IN_FLOAT.has(what.dtype) ? "f32" : "f64";
  const parameters = { array: what.array, at: what.at.join(","), level: pass.level, type, part: what.part };
  if (pass.rows) parameters.rows = text(pass.rows);
  if (pass.columns) parameters.columns = text(pass.columns);
  const response = await ask("slice", what.path, parameters, signal);
  const field = (name) => (response.headers.has(name) ? Number(response.headers.get(name)) : null);
  const buffer = await response.arrayBuffer();
  const [low, high] = [field("X-Varve-Low"), field("X-Varve-High")];
  return {
    values: numbersOf(type, buffer, low, high),
    rows: field("X-Varve-Rows"),
    columns: field("X-Varve-Columns"),
    rowStart: pass.rows?.start ?? 0,
    rowStep: pass.rows?.step ?? 1,
    columnStart: pass.columns?.start ?? 0,
    columnStep: pass.columns?.step ?? 1,
    level: pass.level,
    low,
    high,
    missing: field("X-Varve-Missing"),
    bytes: buffer.byteLength,
  };
}

function numbersOf(type, buffer, low, high) {
  if (type === "f32") return new Float32Array(buffer);
  return type === "f64" ? new Float64Array(buffer) : spread(new Uint16Array(buffer), low, high);
}

/** From codes of 16 bits to values. */
function spread(codes, low, high) {
  const values = new Float32Array(codes.length);
  const factor = low === null ? 0 : (high - low) / 65532;
  for (let i = 0; i < codes.length; ++i) {
    const code = codes[i];
    values[i] = code <= 65532 ? low + code * factor : code === 65535 ? NaN : code === 65534 ? Infinity : -Infinity;
  }
  return values;
}

/** The values that 1% of the finite ones are below and above. */
export function innerRange(values) {
  const finite = Float64Array.from(values.filter((value) => Number.isFinite(value))).sort();
  if (finite.length === 0) return null;
  const at = (share) => finite[Math.min(finite.length - 1, Math.floor(share * finite.length))];
  return { low: at(0.01), high: at(0.99) };
}
