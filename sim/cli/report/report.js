// SPDX-License-Identifier: BSD-3-Clause
// The timeline of a page that `doppel report` made. The data (report_data.c): "tracks" are
// [group, number, name], "slices" are [track, kind, begin, length, name, details] in the order of
// their beginnings, in ns; name and details are indices of "texts". "pending" are waits that had
// not ended: [since, task, why].
"use strict";
(function () {
	const data = JSON.parse(document.getElementById("data").textContent);
	const KINDS = ["call", "plan", "kernel", "collective", "copy", "slot", "proxy", "port",
		"wait", "state", "fault"];
	const [PLAN, COPY, SLOT, PORT, WAIT, STATE, FAULT] = [1, 4, 5, 7, 8, 9, 10];
	const LEFT = 210, ROW = 18, TOP = 50, LEVELS = 3;
	const view = { from: 0, to: 1, filter: "", hidden: new Set([SLOT, STATE]) };
	let rows = [], canvas, flows, note, redraw = false;

	function make(tag, parent, props) {
		const e = Object.assign(document.createElement(tag), props || {});
		if (parent)
			parent.appendChild(e);
		return e;
	}

	function color(name) {
		return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
	}

	function time(ns) {
		const unit = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]].find(u => Math.abs(ns) >= u[0]);
		return unit ? (ns / unit[0]).toFixed(3) + " " + unit[1] : ns.toFixed(0) + " ns";
	}

	// ---- data ----------------------------------------------------------------------------

	// Slices of each track, with the depth at which they nest.
	function byTrack() {
		const of = data.tracks.map(() => ({ slices: [], ends: [] }));
		for (const s of data.slices) {
			const t = of[s[0]], end = s[2] + s[3];
			while (t.ends.length && t.ends[t.ends.length - 1] <= s[2] && s[1] < STATE)
				t.ends.pop();
			s.push(Math.min(t.ends.length, LEVELS - 1));
			if (s[1] < STATE)
				t.ends.push(end);
			t.slices.push(s);
		}
		return of;
	}

	// Waits that had not ended belong to the track of their task.
	function addPending(of) {
		const track = new Map(data.tracks.map((t, i) => [t[2], i]));
		for (const [since, task, why] of data.pending) {
			const at = track.get(task);
			if (at === undefined)
				continue;
			data.texts.push(why, "not ended");
			const n = data.texts.length;
			of[at].slices.push([at, WAIT, since, data.end - since, n - 2, n - 1, 0]);
		}
	}

	function order(a, b) {
		const rank = { rank: 0, host: 1, run: 2 };
		return rank[a.track[0]] - rank[b.track[0]] || a.track[1] - b.track[1] || a.i - b.i;
	}

	function makeRows() {
		const of = byTrack();
		addPending(of);
		rows = data.tracks.map((track, i) => ({ i, track, slices: of[i].slices }));
		rows = rows.filter(r => r.slices.length).sort(order);
		for (const r of rows)
			r.label = (r.track[0] === "rank" && !r.track[2].includes("rank")
				? "rank " + r.track[1] + " " : "") + r.track[2];
	}

	function shown() {
		const words = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
		return rows.filter(r => {
			const text = (r.label + " " + r.track[0] + " " + r.track[1]).toLowerCase();
			return words.every(w => text.includes(w)) &&
				r.slices.some(s => !view.hidden.has(s[1]));
		});
	}

	// ---- view ----------------------------------------------------------------------------

	function setView(from, to) {
		const least = 20, all = data.end * 1.02 + 1;
		const length = Math.min(Math.max(to - from, least), all);
		view.from = Math.max(Math.min(from, all - length), -all * 0.01);
		view.to = view.from + length;
		later();
	}

	function zoom(factor, at) {
		const length = (view.to - view.from) * factor;
		const part = (at - view.from) / (view.to - view.from);
		setView(at - part * length, at - part * length + length);
	}

	// Most runs wait for long before they are given up: shows the time in which they moved.
	function showActive() {
		const first = data.slices.find(s => s[1] === 2 || s[1] === 0);
		const last = data.progress || data.end;
		const from = first ? Math.min(first[2], last) : 0;
		const length = Math.max(last - from, 1000);
		setView(from - length * 0.03, from + length * 1.12);
	}

	function around(ns) {
		const length = Math.min(data.end, Math.max(data.end / 1000, 20000));
		setView(ns - length / 2, ns + length / 2);
	}

	function x(ns, width) {
		return LEFT + (ns - view.from) / (view.to - view.from) * (width - LEFT);
	}

	function later() {
		if (redraw)
			return;
		redraw = true;
		requestAnimationFrame(() => { redraw = false; draw(); });
	}

	// ---- drawing -------------------------------------------------------------------------

	function prepare(c, height) {
		const width = c.parentElement.clientWidth, scale = window.devicePixelRatio || 1;
		c.width = width * scale;
		c.height = height * scale;
		c.style.width = width + "px";
		c.style.height = height + "px";
		const g = c.getContext("2d");
		g.scale(scale, scale);
		g.font = "12px system-ui, 'Liberation Sans', sans-serif";
		g.textBaseline = "middle";
		return { g, width, height };
	}

	function axis(p) {
		const length = view.to - view.from;
		const step = [1, 2, 5, 10].map(m => m * 10 ** Math.floor(Math.log10(length / 8)))
			.find(s => length / s <= 9);
		p.g.fillStyle = color("dim");
		p.g.strokeStyle = color("line");
		for (let t = Math.ceil(view.from / step) * step; t < view.to; t += step) {
			const at = Math.round(x(t, p.width)) + 0.5;
			p.g.beginPath();
			p.g.moveTo(at, 16);
			p.g.lineTo(at, p.height);
			p.g.stroke();
			p.g.fillText(time(t), at + 3, 10);
		}
	}

	function mark(p, ns, name, text, y) {
		if (ns < view.from || ns > view.to)
			return;
		const at = x(ns, p.width);
		p.g.strokeStyle = p.g.fillStyle = color(name);
		p.g.setLineDash([4, 3]);
		p.g.beginPath();
		p.g.moveTo(at, 16);
		p.g.lineTo(at, p.height);
		p.g.stroke();
		p.g.setLineDash([]);
		p.g.fillText(text, Math.min(at + 3, p.width - 80), y);
	}

	function label(p, r, y) {
		p.g.fillStyle = color(r.track[0] === "rank" && r.track[1] === data.late ? "bad" : "text");
		p.g.fillText(r.label.slice(0, 32), 6, y + ROW / 2, LEFT - 12);
	}

	function flag(p, at, y) {
		p.g.fillStyle = color("bad");
		p.g.beginPath();
		p.g.moveTo(at, y + 1);
		p.g.lineTo(at + 9, y + 5);
		p.g.lineTo(at, y + 9);
		p.g.fill();
		p.g.fillRect(at - 1, y + 1, 2, ROW - 3);
	}

	function slice(p, s, y, colors, ends) {
		const a = Math.max(x(s[2], p.width), LEFT), b = Math.min(x(s[2] + s[3], p.width), p.width);
		if (s[1] === FAULT)
			return flag(p, a, y);
		// several slices of a pixel are one
		const depth = s[6], key = depth * KINDS.length + s[1];
		if (b <= (ends[key] || -1))
			return;
		const wide = Math.max(b - a, 1), inset = depth * 4;
		ends[key] = a + wide;
		p.g.fillStyle = colors[s[1]];
		p.g.fillRect(a, y + 1 + inset, wide, ROW - 3 - inset);
		if (wide > 60 && depth < 2) {
			p.g.fillStyle = s[1] === WAIT ? color("text") : "#fff";
			const n = Math.floor((wide - 6) / 6.5);
			p.g.fillText(data.texts[s[4]].slice(0, n), a + 3, y + ROW / 2 + inset / 2, wide - 5);
		}
	}

	function row(p, r, y, colors) {
		const ends = {};
		label(p, r, y);
		for (const s of r.slices)
			if (s[2] <= view.to && s[2] + s[3] >= view.from && !view.hidden.has(s[1]))
				slice(p, s, y, colors, ends);
		p.g.fillStyle = color("line");
		p.g.fillRect(0, y + ROW - 1, p.width, 0.5);
	}

	function draw() {
		const list = shown(), p = prepare(canvas, TOP + Math.max(list.length, 1) * ROW);
		const colors = KINDS.map(k => color(k));
		axis(p);
		list.forEach((r, i) => row(p, r, TOP + i * ROW, colors));
		if (!list.length)
			p.g.fillText("no row has this filter", LEFT, TOP + ROW / 2);
		if (data.failure < data.end)
			mark(p, data.end, "dim", "", 20);
		mark(p, data.failure, "bad", "failure", 42);
		if (data.fault !== null)
			mark(p, data.fault, "bad", "first fault", 20);
		if (data.progress)
			mark(p, data.progress, "dim", "last progress", 31);
		canvas.list = list;
		if (flows)
			drawFlows();
	}

	// ---- links ---------------------------------------------------------------------------

	// Throughput of a port: bytes of its messages, spread over the pixels that they take.
	function rates(r, width) {
		const pixels = Math.max(width - LEFT, 1), ns = (view.to - view.from) / pixels;
		const of = new Float64Array(pixels);
		for (const s of r.slices) {
			const bytes = Number((/bytes (\d+)/.exec(data.texts[s[5]]) || [0, 0])[1]);
			const a = (s[2] - view.from) / ns, b = Math.max((s[2] + s[3] - view.from) / ns, a + 1);
			for (let i = Math.max(Math.floor(a), 0); i < Math.min(b, pixels); i++)
				of[i] += bytes * (Math.min(b, i + 1) - Math.max(a, i)) / (b - a) / ns;
		}
		return of;
	}

	function drawFlows() {
		const HIGH = 34, list = rows.filter(r => r.track[0] === "host");
		const p = prepare(flows, 20 + list.length * HIGH);
		const all = list.map(r => rates(r, p.width));
		const most = Math.max(...all.map(of => of.reduce((m, v) => Math.max(m, v), 0)), 1e-9);
		axis(p);
		list.forEach((r, i) => {
			const y = 20 + i * HIGH;
			p.g.fillStyle = color("text");
			p.g.fillText("host " + r.track[1] + " " + r.track[2], 6, y + HIGH / 2, LEFT - 12);
			p.g.fillStyle = color("port");
			all[i].forEach((v, k) => {
				const h = v / most * (HIGH - 4);
				p.g.fillRect(LEFT + k, y + HIGH - 2 - h, 1, h);
			});
		});
		p.g.fillStyle = color("dim");
		p.g.fillText("full height: " + most.toFixed(2) + " GB/s", 6, 10);
	}

	// ---- input ---------------------------------------------------------------------------

	function at(event) {
		const box = canvas.getBoundingClientRect();
		const px = event.clientX - box.left, i = Math.floor((event.clientY - box.top - TOP) / ROW);
		const ns = view.from + (px - LEFT) / (box.width - LEFT) * (view.to - view.from);
		return { ns, row: (canvas.list || [])[i], near: (view.to - view.from) / box.width * 2 };
	}

	// The shortest slice below the pointer.
	function find(w) {
		let best = null;
		for (const s of w.row ? w.row.slices : [])
			if (!view.hidden.has(s[1]) && s[2] - w.near <= w.ns && s[2] + s[3] + w.near >= w.ns &&
				(!best || s[3] <= best[3]))
				best = s;
		return best;
	}

	function describe(event) {
		const w = at(event), s = find(w);
		note.textContent = !s ? time(w.ns)
			: w.row.label + ": " + data.texts[s[4]] +
				(data.texts[s[5]] ? " (" + data.texts[s[5]] + ")" : "") + ", at " + time(s[2]) +
				(s[3] ? ", for " + time(s[3]) : "");
	}

	function drag() {
		let from = null;
		canvas.addEventListener("pointerdown", e => {
			from = { x: e.clientX, view: { ...view } };
			canvas.setPointerCapture(e.pointerId);
		});
		canvas.addEventListener("pointerup", () => { from = null; });
		canvas.addEventListener("pointermove", e => {
			if (!from)
				return describe(e);
			const width = canvas.getBoundingClientRect().width - LEFT;
			const ns = (e.clientX - from.x) / width * (from.view.to - from.view.from);
			setView(from.view.from - ns, from.view.to - ns);
		});
		canvas.addEventListener("wheel", e => {
			if (!e.ctrlKey && !e.shiftKey && !e.altKey)
				return;
			e.preventDefault();
			zoom((e.deltaY || e.deltaX) > 0 ? 1.25 : 0.8, at(e).ns);
		}, { passive: false });
	}

	function keys() {
		canvas.tabIndex = 0;
		canvas.addEventListener("keydown", e => {
			const length = view.to - view.from, middle = view.from + length / 2;
			const does = {
				"+": () => zoom(0.6, middle), "-": () => zoom(1.6, middle),
				ArrowLeft: () => setView(view.from - length / 5, view.to - length / 5),
				ArrowRight: () => setView(view.from + length / 5, view.to + length / 5),
			}[e.key];
			if (does) {
				e.preventDefault();
				does();
			}
		});
	}

	function buttons(bar) {
		const middle = () => (view.from + view.to) / 2;
		const button = (textContent, onclick) => make("button", bar, { textContent, onclick });
		button("+", () => zoom(0.5, middle())).ariaLabel = "zoom in";
		button("\u2212", () => zoom(2, middle())).ariaLabel = "zoom out";
		button("all", () => setView(0, data.end * 1.02));
		button("active time", showActive);
		if (data.fault !== null)
			button("first fault", () => around(data.fault));
		if (data.progress)
			button("last progress", () => around(data.progress));
		button("failure", () => around(data.failure));
		const filter = make("input", bar, { type: "search", placeholder: "rows: rank 3 proxy" });
		filter.ariaLabel = "filter of rows";
		filter.oninput = () => { view.filter = filter.value; later(); };
	}

	function kinds(bar) {
		KINDS.forEach((name, kind) => {
			if (!data.slices.some(s => s[1] === kind))
				return;
			const box = make("label", bar);
			const check = make("input", box, { type: "checkbox", checked: !view.hidden.has(kind) });
			check.onchange = () => {
				view.hidden[check.checked ? "delete" : "add"](kind);
				later();
			};
			make("i", box).style.background = "var(--" + (kind === FAULT ? "bad" : name) + ")";
			box.append(name);
		});
	}

	function channels() {
		const edges = [...document.querySelectorAll("#map .edge")];
		const all = [...new Set(edges.map(e => Number(e.dataset.c)))].sort((a, b) => a - b);
		const place = document.getElementById("channels");
		if (!place || !all.length)
			return;
		const select = make("select", make("label", place, { textContent: "Channel " }));
		for (const c of all)
			make("option", select, { value: c, textContent: c });
		select.value = Math.max(data.channel, 0);
		select.onchange = () => {
			for (const e of edges)
				e.classList.toggle("on", e.dataset.c === select.value);
			document.querySelector("#map").append(
				...edges.filter(e => e.dataset.c === select.value),
				...document.querySelectorAll("#map .rank"));
		};
	}

	function start() {
		const place = document.getElementById("lanes");
		makeRows();
		channels();
		place.textContent = "";
		if (!rows.length) {
			make("p", place, { textContent: "The run has left no timeline." });
			return;
		}
		buttons(make("div", place, { className: "bar" }));
		kinds(make("div", place, { className: "bar" }));
		canvas = make("canvas", make("div", place, { className: "stage" }));
		note = make("p", place, { className: "note" });
		note.textContent = "Drag moves, Ctrl and the wheel zoom; so do the arrow keys, + and -." +
			(data.dropped ? " " + data.dropped + " short records are left out." : "");
		canvas.ariaLabel = "timeline of " + rows.length + " rows";
		const links = document.getElementById("flows");
		if (links)
			flows = make("canvas", make("div", links, { className: "stage" }));
		drag();
		keys();
		showActive();
		window.addEventListener("resize", later);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
		document.body.dataset.ready = rows.length;
	}
	start();
})();
