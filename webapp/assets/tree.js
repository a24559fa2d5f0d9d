// The program tree. Children are fetched when a node opens, and only visible rows are drawn, so a
// program of a hundred thousand steps opens instantly.
(function () {
  'use strict';
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  const ROW_PX = 24;
  const PAGE = 500;

  async function ask(path, parameters) {
    const answer = await fetch('/api/programs/' + path + '?' + new URLSearchParams(parameters));
    const data = await answer.json();
    if (!data.ok) throw new Error(data.message);
    return data;
  }

  class Tree {
    constructor(host) {
      this.host = host;
      this.report = null;
      this.rows = [];
      this.selected = null;
      this.focused = 0;
      this.pending = new Map();
      this.matches = null;
      host.innerHTML = '';
      this.space = document.createElement('div');
      this.space.className = 'tree-space';
      host.append(this.space);
      host.addEventListener('scroll', () => this.schedule());
      new ResizeObserver(() => this.schedule()).observe(host);
      host.addEventListener('click', (event) => this.click(event));
      host.addEventListener('keydown', (event) => this.key(event));
    }

    async load(report) {
      if (report === this.report) return;
      this.report = report;
      this.rows = [];
      this.byId = new Map();
      this.selected = null;
      this.focused = 0;
      this.pending.clear();
      this.message('Loading …');
      try {
        const data = await ask(report + '/roots', {});
        if (report !== this.report) return;
        this.roots = data.nodes.map((node) => this.adopt(node, null, 0));
        if (!this.roots.length) {
          this.message('This report has no program: the run ended before the program was compiled.');
          return;
        }
        if (this.roots.length) await this.open(this.roots[0]);
        let only = this.roots[0];
        while (only.children && only.n_children === 1 && only.children[0].n_children) {
          only = only.children[0];
          await this.open(only);
        }
        this.flatten();
      } catch (error) {
        this.message(error.message, true);
      }
    }

    adopt(node, parent, depth) {
      const known = Object.assign(node, {parent, depth, isOpen: false, children: null});
      this.byId.set(node.id, known);
      return known;
    }

    async open(node) {
      if (!node.n_children) return;
      node.isOpen = true;
      node.children = node.children || new Array(node.n_children);
      await this.fill(node, 0);
    }

    // Fetches the page of children that contains a position, once.
    fill(node, place) {
      const offset = Math.floor(place / PAGE) * PAGE;
      if (node.children[offset]) return Promise.resolve();
      const key = node.id + ':' + offset;
      if (!this.pending.has(key)) {
        const report = this.report;
        const request = ask(report + '/children', {program: node.id, offset, limit: PAGE})
          .then((data) => {
            if (report !== this.report) return;
            data.nodes.forEach((child, index) => {
              node.children[offset + index] = this.adopt(child, node, node.depth + 1);
            });
            this.pending.delete(key);
            this.schedule();
          });
        this.pending.set(key, request);
      }
      return this.pending.get(key);
    }

    flatten() {
      const rows = [];
      const walk = (node) => {
        rows.push({node});
        if (!node.isOpen) return;
        for (let place = 0; place < node.children.length; place++) {
          const child = node.children[place];
          if (child) walk(child);
          else rows.push({parent: node, place});
        }
      };
      for (const root of this.roots || []) walk(root);
      this.rows = rows;
      this.schedule();
    }

    message(text, isError) {
      this.space.style.height = 'auto';
      this.space.replaceChildren();
      const box = document.createElement('div');
      box.className = isError ? 'error-panel' : 'empty-state';
      box.textContent = text;
      this.space.append(box);
    }

    schedule() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = null;
        this.draw();
      });
    }

    draw() {
      if (!this.rows.length) return;
      // Rows of a page that has arrived replace their placeholders.
      let arrived = false;
      for (const row of this.rows) {
        if (row.parent && row.parent.children[row.place]) {
          row.node = row.parent.children[row.place];
          row.parent = null;
          arrived = true;
        }
      }
      const first = Math.max(0, Math.floor(this.host.scrollTop / ROW_PX) - 5);
      const last = Math.min(this.rows.length, first + Math.ceil(this.host.clientHeight / ROW_PX) + 10);
      this.space.style.height = this.rows.length * ROW_PX + 'px';
      const drawn = [];
      for (let index = first; index < last; index++) {
        const row = this.rows[index];
        if (!row.node) this.fill(row.parent, row.place).catch((error) => this.message(error.message, true));
        drawn.push(this.rowElement(row, index));
      }
      this.space.replaceChildren(...drawn);
      if (arrived) this.schedule();
    }

    rowElement(row, index) {
      const element = document.createElement('div');
      element.className = 'tree-row';
      element.style.top = index * ROW_PX + 'px';
      element.dataset.index = index;
      if (!row.node) {
        element.textContent = '…';
        element.style.paddingLeft = 12 + 16 * (row.parent.depth + 1) + 'px';
        return element;
      }
      const node = row.node;
      element.setAttribute('role', 'treeitem');
      element.setAttribute('aria-level', node.depth + 1);
      element.setAttribute('aria-selected', String(node.id === this.selected));
      element.id = 'program-' + node.id;
      if (node.n_children) element.setAttribute('aria-expanded', String(node.isOpen));
      element.style.paddingLeft = 8 + 16 * node.depth + 'px';
      if (node.id === this.selected) element.classList.add('is-selected');
      if (index === this.focused) element.classList.add('is-focused');
      if (this.matches && this.matches.has(node.id)) element.classList.add('is-match');
      const arrow = document.createElement('span');
      arrow.className = 'tree-arrow';
      arrow.textContent = node.n_children ? (node.isOpen ? '▾' : '▸') : '';
      const kind = document.createElement('span');
      kind.className = 'tree-kind phase-' + node.phase;
      kind.textContent = node.kind;
      const label = document.createElement('span');
      label.className = 'tree-name';
      label.textContent = node.name ? '(' + node.name + ')' : '';
      const note = document.createElement('span');
      note.className = 'tree-note';
      const notes = [];
      if (node.depth === 0) {
        notes.push(node.root_kind === 'function' ? 'function ' + node.root_index
          : 'control program ' + node.root_index);
      }
      if (node.repeat_count > 1) notes.push('× ' + node.repeat_count.toLocaleString('en-US'));
      if (node.n_tiles) notes.push(node.n_tiles.toLocaleString('en-US') + (node.n_tiles === 1 ? ' tile' : ' tiles'));
      if (node.n_children) notes.push(node.n_children.toLocaleString('en-US') + ' inside');
      note.textContent = notes.join(' · ');
      element.append(arrow, kind, label, note);
      return element;
    }

    async toggle(node) {
      if (!node.n_children) return;
      if (node.isOpen) node.isOpen = false;
      else await this.open(node);
      this.flatten();
    }

    click(event) {
      const element = event.target.closest('.tree-row');
      const row = element && this.rows[Number(element.dataset.index)];
      if (!row || !row.node) return;
      this.focused = Number(element.dataset.index);
      if (event.target.classList.contains('tree-arrow')) this.toggle(row.node);
      else {
        if (event.detail > 1) this.toggle(row.node);
        this.choose(row.node);
      }
    }

    choose(node) {
      this.selected = node.id;
      this.schedule();
      window.tilescope.changeView({node: String(node.id)}, false);
    }

    key(event) {
      const row = this.rows[this.focused];
      const node = row && row.node;
      const page = Math.floor(this.host.clientHeight / ROW_PX) - 1;
      const moves = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
        Home: -this.rows.length, End: this.rows.length};
      if (event.key in moves) this.focus(this.focused + moves[event.key]);
      else if (event.key === 'ArrowRight' && node && node.n_children) {
        if (node.isOpen) this.focus(this.focused + 1);
        else this.toggle(node);
      } else if (event.key === 'ArrowLeft' && node) {
        if (node.isOpen) this.toggle(node);
        else if (node.parent) this.focus(this.rows.findIndex((other) => other.node === node.parent));
      } else if ((event.key === 'Enter' || event.key === ' ') && node) this.choose(node);
      else return;
      event.preventDefault();
    }

    focus(index) {
      this.focused = Math.max(0, Math.min(this.rows.length - 1, index));
      const top = this.focused * ROW_PX;
      const height = this.host.clientHeight;
      if (top < this.host.scrollTop) this.host.scrollTop = top;
      else if (top + ROW_PX > this.host.scrollTop + height) this.host.scrollTop = top + ROW_PX - height;
      const row = this.rows[this.focused];
      if (row && row.node) this.host.setAttribute('aria-activedescendant', 'program-' + row.node.id);
      this.schedule();
    }

    // Opens the ancestors of a program and scrolls to it.
    async reveal(id) {
      const report = this.report;
      const data = await ask(report + '/path', {program: id});
      if (report !== this.report) return;
      for (let index = 0; index + 1 < data.path.length; index++) {
        const node = this.byId.get(data.path[index].id);
        if (!node) break;
        node.isOpen = true;
        node.children = node.children || new Array(node.n_children);
        await this.fill(node, data.path[index + 1].position);
      }
      this.flatten();
      const place = this.rows.findIndex((row) => row.node && row.node.id === id);
      if (place < 0) return;
      this.focused = place;
      this.host.scrollTop = Math.max(0, place * ROW_PX - this.host.clientHeight / 2);
      this.schedule();
    }
  }

  let tree = null;
  let search = {text: '', matches: [], place: -1, total: 0};

  function treeOf() {
    const host = document.getElementById('program-tree');
    if (!tree || tree.host !== host) tree = new Tree(host);
    return tree;
  }

  function searchNote() {
    if (!search.text) return '';
    if (!search.total) return 'Nothing matches “' + search.text + '”';
    const shown = search.matches.length < search.total
      ? ' (first ' + search.matches.length.toLocaleString('en-US') + ')' : '';
    return (search.place + 1).toLocaleString('en-US') + ' of ' +
      search.total.toLocaleString('en-US') + ' matches' + shown;
  }

  clientside.programs = {
    async show(view) {
      if (!view || !view.report) return clientside.no_update;
      const shown = treeOf();
      const isNew = shown.report !== view.report;
      await shown.load(view.report);
      const wanted = view.node === '' ? null : Number(view.node);
      if (wanted !== null && Number.isInteger(wanted) && wanted !== shown.selected) {
        shown.selected = wanted;
        await shown.reveal(wanted).catch(() => {});
      }
      shown.schedule();
      if (view.find !== search.text || isNew) {
        search = {text: view.find, matches: [], place: -1, total: 0};
        shown.matches = null;
        if (view.find) {
          try {
            const data = await ask(view.report + '/search', {text: view.find});
            search.matches = data.matches.map((match) => match.program);
            search.total = data.n_matches;
            shown.matches = new Set(search.matches);
            if (search.matches.length && wanted === null) {
              search.place = 0;
              await shown.reveal(search.matches[0]);
            } else if (search.matches.length) {
              search.place = Math.max(0, search.matches.indexOf(wanted));
              if (!shown.matches.has(wanted)) await shown.reveal(search.matches[0]);
            }
          } catch (error) {
            return error.message;
          }
        }
        shown.schedule();
      }
      return searchNote();
    },

    async step() {
      const trigger = clientside.callback_context.triggered_id;
      if (!search.matches.length) return searchNote();
      const move = trigger === 'programs-next' ? 1 : -1;
      search.place = (search.place + move + search.matches.length) % search.matches.length;
      const id = search.matches[search.place];
      const shown = treeOf();
      await shown.reveal(id);
      const row = shown.rows[shown.focused];
      if (row && row.node) shown.choose(row.node);
      return searchNote();
    },
  };

  document.addEventListener('keydown', (event) => {
    const target = /** @type {Element} */ (event.target);
    if (event.key !== 'Enter' || !target.matches || !target.matches('#programs-find')) return;
    document.getElementById(event.shiftKey ? 'programs-back' : 'programs-next')?.click();
  });
})();
