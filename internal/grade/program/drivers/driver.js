// Calls the candidate's functions. usage: node -e … SOURCE, requests on 4,
// answers on 3.
//
// Everything here is in the candidate's hands once the source is loaded: it can
// then answer rightly or wrongly, and nothing else.
'use strict';
const fs = require('fs');
const path = require('path');
const url = require('url');

const MAX_DEPTH = 100, MAX_ITEMS = 500000, MAX_BYTES = 8 << 20;
const own = Object.prototype.hasOwnProperty;

class NotPlain extends Error {}

function revive(v) {
  if (Array.isArray(v)) return v.map(revive);
  if (v === null || typeof v !== 'object') return v;
  const keys = Object.keys(v);
  if (keys.length === 1 && keys[0].startsWith('$')) return reviveTag(keys[0].slice(1), v[keys[0]]);
  const made = {};
  for (const k of keys) Object.defineProperty(made, k, {value: revive(v[k]), writable: true, enumerable: true, configurable: true});
  return made;
}

function reviveTag(tag, body) {
  switch (tag) {
    case 'int': return body[0] === '-' ? -BigInt(body.slice(1)) : BigInt(body);
    case 'float': return {nan: NaN, inf: Infinity, '-inf': -Infinity}[body];
    case 'bytes': return new Uint8Array(Buffer.from(body, 'base64'));
    case 'tuple': case 'iter': return body.map(revive);
    case 'set': return new Set(body.map(revive));
    case 'dict': return new Map(body.map((p) => [revive(p[0]), revive(p[1])]));
    case 'datetime': return new Date(body);
    case 'undefined': return undefined;
  }
  throw new NotPlain('JavaScript has no $' + tag);
}

function dump(v) {
  const out = [], open = new Set();
  let items = 0, bytes = 0;
  const text = (s) => {
    if ((bytes += s.length) > MAX_BYTES) throw new NotPlain('more than ' + MAX_BYTES + ' bytes');
    out.push(s);
  };
  const many = (begin, all, end, depth) => {
    text(begin);
    all.forEach((x, i) => { if (i) text(','); put(x, depth + 1); });
    text(end);
  };
  function put(v, depth) {
    if (++items > MAX_ITEMS || depth > MAX_DEPTH) throw new NotPlain('nested too deeply, or too many items');
    switch (typeof v) {
      case 'undefined': return text('{"$undefined":""}');
      case 'boolean': return text(v ? 'true' : 'false');
      case 'string': return text(JSON.stringify(v));
      case 'number': return number(v);
      case 'bigint': return integer(v);
      case 'object': break;
      default: throw new NotPlain('a ' + typeof v);
    }
    if (v === null) return text('null');
    if (open.has(v)) throw new NotPlain('a cycle');
    open.add(v);
    object(v, depth);
    open.delete(v);
  }
  function integer(v) {
    const s = (v < 0n ? -v : v).toString(16);
    if (s.length > 65536) throw new NotPlain('an integer of ' + s.length + ' digits');
    text('{"$int":"' + (v < 0n ? '-' : '') + '0x' + s + '"}');
  }
  function number(v) {
    if (Number.isNaN(v)) return text('{"$float":"nan"}');
    if (!Number.isFinite(v)) return text('{"$float":"' + (v > 0 ? 'inf' : '-inf') + '"}');
    if (Object.is(v, -0)) return text('-0.0');
    return Number.isInteger(v) && !Number.isSafeInteger(v) ? integer(BigInt(v)) : text(String(v));
  }
  function object(v, depth) {
    if (Array.isArray(v)) return many('[', Array.from(v), ']', depth);
    if (v instanceof Set) return many('{"$set":[', Array.from(v), ']}', depth);
    if (v instanceof Map) return many('{"$dict":[', Array.from(v), ']}', depth);
    if (v instanceof Date) return text('{"$datetime":' + JSON.stringify(Number.isNaN(v.getTime()) ? 'invalid' : v.toISOString()) + '}');
    if (v instanceof Number || v instanceof String || v instanceof Boolean) return put(v.valueOf(), depth);
    if (v instanceof Error) return text('{"$error":' + JSON.stringify(String(v.name)) + '}');
    if (v instanceof Uint8Array || v instanceof ArrayBuffer) return text('{"$bytes":"' + Buffer.from(v).toString('base64') + '"}');
    if (ArrayBuffer.isView(v)) return many('[', Array.from(v), ']', depth);
    const keys = Object.keys(v);
    if (keys.length === 0 && typeof v[Symbol.iterator] === 'function') return iterator(v, depth);
    if (keys.some((k) => k.startsWith('$'))) return many('{"$dict":[', keys.map((k) => [k, v[k]]), ']}', depth);
    text('{');
    keys.forEach((k, i) => { text((i ? ',' : '') + JSON.stringify(k) + ':'); put(v[k], depth + 1); });
    text('}');
  }
  function iterator(v, depth) {
    const some = [];
    for (const x of v) if (some.push(x) > MAX_ITEMS) throw new NotPlain('an iterator that does not end');
    many('{"$iter":[', some, ']}', depth);
  }
  put(v, 0);
  return out.join('');
}

function describe(e) {
  const types = [];
  try {
    for (let c = e === null || typeof e !== 'object' ? null : e; c && types.length < 20; c = Object.getPrototypeOf(c)) {
      if (own.call(c, 'name') && typeof c.name === 'string' && !types.includes(c.name)) types.push(c.name);
      if (own.call(c, 'constructor') && !types.includes(c.constructor.name)) types.push(String(c.constructor.name));
    }
  } catch (_) { /* a getter of the candidate's */ }
  let message = 'a message that cannot be shown';
  try { message = String(e instanceof Error ? e.message : e).slice(0, 2000); } catch (_) { /* likewise */ }
  return {types: types.length ? types : [typeof e], message};
}

function send(s) {
  let data = Buffer.from(s + '\n');
  while (data.length) data = data.subarray(fs.writeSync(3, data));
}

// A source that exports nothing is read as a script, whose top-level names are its functions.
async function loadSource(file) {
  let made;
  try {
    made = require(file);
  } catch (e) {
    if (!e || e.code !== 'ERR_REQUIRE_ESM' && !(e instanceof SyntaxError && /import|export|await/.test(String(e.message)))) throw e;
    made = await import(url.pathToFileURL(file));
  }
  const find = (from, name) => name.split('.').reduce((o, k) => (o === undefined || o === null ? undefined : o[k]), from);
  const exported = made !== null && (typeof made === 'function' || Object.keys(made).length > 0);
  if (exported || path.extname(file) === '.mjs') {
    return (name) => {
      const found = find(made, name) || find(made.default, name);
      if (found) return found;
      return [made, made && made.default].find((f) => typeof f === 'function' && f.name === name);
    };
  }
  const source = fs.readFileSync(file, 'utf8');
  const cache = new Map();
  const Module = require('module');
  return (name) => {
    if (!/^[\w$.\u0080-\uffff]+$/.test(name)) return undefined;
    if (!cache.has(name)) {
      const m = new Module(file, null);
      m.filename = file;
      m.paths = Module._nodeModulePaths(path.dirname(file));
      m._compile(source + '\n;module.exports = typeof ' + name.split('.')[0] + " === 'undefined' ? undefined : " + name + ';', file);
      cache.set(name, m.exports);
    }
    return cache.get(name);
  };
}

async function answer(lookup, line) {
  try {
    const request = JSON.parse(line);
    const f = lookup(request.func);
    if (typeof f !== 'function') throw new ReferenceError(request.func + ' is not a function of the source');
    const value = await f(...request.args.map(revive));
    try {
      return '{"value":' + dump(value) + '}';
    } catch (e) {
      if (!(e instanceof NotPlain)) throw e;
      return JSON.stringify({refused: e.message});
    }
  } catch (e) {
    return JSON.stringify({raised: describe(e)});
  }
}

async function serve(file) {
  let lookup;
  try {
    lookup = await loadSource(path.resolve(file));
  } catch (e) {
    send(JSON.stringify({broken: describe(e)}));
    process.exit(0);
  }
  send('{"ready":true}');
  for await (const line of require('readline').createInterface({input: fs.createReadStream(null, {fd: 4})})) {
    send(await answer(lookup, line));
  }
  process.exit(0);
}

serve(process.argv[1]);
