// SPDX-License-Identifier: BSD-3-Clause
// Runs SQL on a trace file with Perfetto's own trace processor, the one that its UI runs in a browser.
//
//   node perfetto_query.js UI_FOLDER TRACE <statements
//
// UI_FOLDER has engine_bundle.js and trace_processor.wasm of a release of ui.perfetto.dev. One statement per
// line of standard input gives one line of JSON: {"columns": [...], "rows": [[...]...]} or {"error": "..."}.
// Exit status 1: the file is not a trace, or the folder has no engine.
//
// The engine is a web worker: it gets a message port, over which requests and replies go as protobuf messages
// (TraceProcessorRpcStream of Perfetto's protos/perfetto/trace_processor/trace_processor.proto).
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const PIECE = 16 << 20; // of the trace, at a time
const APPEND = 1, FINALIZE = 2, QUERY = 3; // methods
const [folder, trace] = process.argv.slice(2);

function fail(error) {
	console.error('perfetto_query:', error && error.message ? error.message : error);
	process.exit(1);
}
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);

// ---- protobuf -------------------------------------------------------------------------------------

function varint(n) {
	const bytes = [];

	for (; n > 127; n = Math.floor(n / 128))
		bytes.push(n % 128 + 128);
	bytes.push(n);
	return Buffer.from(bytes);
}

function number(id, n) {
	return Buffer.concat([varint(id * 8), varint(n)]);
}

function bytes(id, body) {
	return Buffer.concat([varint(id * 8 + 2), varint(body.length), body]);
}

class Reader {
	constructor(buffer) {
		this.buffer = buffer;
		this.at = 0;
	}
	varint() {
		let n = 0n, byte;

		for (let shift = 0n;; shift += 7n) {
			byte = this.buffer[this.at++];
			n |= BigInt(byte & 127) << shift;
			if (byte < 128)
				return BigInt.asIntN(64, n);
		}
	}
	take(n) {
		this.at += n;
		return this.buffer.subarray(this.at - n, this.at);
	}
	// [number of a field, its value] until the end
	*fields() {
		while (this.at < this.buffer.length) {
			const tag = Number(this.varint()), wire = tag & 7;

			if (wire === 0)
				yield [tag >> 3, this.varint()];
			else
				yield [tag >> 3, this.take(wire === 1 ? 8 : wire === 5 ? 4 : Number(this.varint()))];
		}
	}
	*varints() {
		while (this.at < this.buffer.length)
			yield this.varint();
	}
}

// ---- replies --------------------------------------------------------------------------------------

// Of the request that waits: what its replies have so far, and its promise.
let result, done;

const NULL_CELL = 1, INTEGER = 2, FLOAT = 3, TEXT = 4;

function cells(batch) {
	const values = { [INTEGER]: [], [FLOAT]: [], [TEXT]: [] };
	let types = [], last = false;

	for (const [id, value] of new Reader(batch).fields()) {
		if (id === 1)
			types = [...new Reader(value).varints()].map(Number);
		else if (id === 2)
			values[INTEGER].push(...new Reader(value).varints());
		else if (id === 3)
			for (let at = 0; at < value.length; at += 8)
				values[FLOAT].push(value.readDoubleLE(at));
		else if (id === 5)
			values[TEXT].push(...value.toString().split('\0'));
		else if (id === 6)
			last = value !== 0n;
	}
	for (const type of types) {
		const value = type === NULL_CELL ? null : values[type].shift();

		result.cells.push(typeof value === 'bigint' ? Number(value) : value);
	}
	return last;
}

function queryReply(body) {
	let last = false;

	for (const [id, value] of new Reader(body).fields()) {
		if (id === 1)
			result.columns.push(value.toString());
		else if (id === 2 && value.length)
			result.error = value.toString();
		else if (id === 3)
			last = cells(value) || last;
	}
	return last;
}

function appendReply(body) {
	for (const [id, value] of new Reader(body).fields())
		if (id === 2)
			result.error = value.toString();
	return true;
}

function reply(message) {
	let last = false;

	for (const [id, value] of new Reader(message).fields()) {
		if (id === 3)
			last = Number(value) === FINALIZE || last;
		else if (id === 5)
			result.error = value.toString();
		else if (id === 201)
			last = appendReply(value);
		else if (id === 203)
			last = queryReply(value);
	}
	if (last || result.error)
		done();
}

// ---- the worker -----------------------------------------------------------------------------------

const port = {
	onmessage: null,
	postMessage(stream) {
		for (const [, message] of new Reader(Buffer.from(stream)).fields())
			reply(message);
	},
};

// What a worker asks its browser for.
class XMLHttpRequest {
	open(method, url) {
		this.file = path.join(folder, path.basename(url));
	}
	send() {
		this.response = new Uint8Array(fs.readFileSync(this.file)).buffer;
	}
}

function engineStart() {
	const quiet = { log() {}, warn() {}, error: console.error };
	const worker = {
		WebAssembly, TypeError, Uint8Array, ArrayBuffer, TextDecoder, TextEncoder, URL, Promise, performance,
		setTimeout, clearTimeout, XMLHttpRequest,
		console: quiet,
		crypto: globalThis.crypto || require('crypto').webcrypto,
		location: { href: 'file:///engine_bundle.js' },
		WorkerGlobalScope: class {},
		importScripts() {},
	};

	worker.self = worker;
	vm.runInNewContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), worker);
	worker.onmessage({ data: port });
}

let sequence = 0;

async function request(method, ...fields) {
	const rpc = Buffer.concat([number(1, sequence++), number(2, method), ...fields]);

	result = { columns: [], cells: [], error: null };
	await new Promise((resolve) => {
		done = resolve;
		port.onmessage({ data: new Uint8Array(bytes(1, rpc)) });
	});
	return result;
}

// ---- main -----------------------------------------------------------------------------------------

async function traceLoad() {
	const data = fs.readFileSync(trace);

	for (let at = 0; at < data.length; at += PIECE) {
		const { error } = await request(APPEND, bytes(101, data.subarray(at, at + PIECE)));

		if (error)
			throw new Error(`${trace}: ${error}`);
	}
	await request(FINALIZE);
	if (result.error)
		throw new Error(`${trace}: ${result.error}`);
}

async function query(sql) {
	const { columns, cells: all, error } = await request(QUERY, bytes(103, bytes(1, Buffer.from(sql))));
	const rows = [];

	for (let at = 0; at < all.length; at += columns.length)
		rows.push(all.slice(at, at + columns.length));
	console.log(JSON.stringify(error ? { error } : { columns, rows }));
}

async function main() {
	engineStart();
	await new Promise((resolve) => setImmediate(resolve)); // the engine's own promises come first
	await traceLoad();
	for (const sql of fs.readFileSync(0, 'utf8').split('\n'))
		if (sql.trim())
			await query(sql);
}
main().then(() => process.exit(0), fail);
