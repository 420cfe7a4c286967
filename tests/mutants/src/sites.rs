// SPDX-License-Identifier: GPL-2.0

//! Finds what can be mutated in a source file, and how.

use std::ops::Range;

use syn::{
    spanned::Spanned,
    visit::{
        self,
        Visit, //
    },
    BinOp,
    Expr,
    Stmt,
    UnOp, //
};

/// How a wrong text gets to its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Instead of an expression.
    Expression,
    /// Instead of a statement, or of several.
    Statement,
    /// In front of the first statement of a function.
    Start,
}

/// One mutant.
#[derive(Clone, Debug)]
pub struct Site {
    /// Bytes of the file.
    pub place: Range<usize>,
    pub form: Form,
    pub wrong: String,
    pub kind: &'static str,
    /// The function that it is in, with its type.
    pub function: String,
}

/// A function, and where its body is.
pub struct Function {
    pub name: String,
    pub body: Range<usize>,
}

/// What a file has.
#[derive(Default)]
pub struct Found {
    pub sites: Vec<Site>,
    pub functions: Vec<Function>,
}

/// Returns what can be mutated in `text`.
pub fn find(text: &str) -> syn::Result<Found> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder {
        text,
        relaxed: if text.contains(" Relaxed") {
            "Relaxed"
        } else if text.contains("use super::atomic::") {
            // Host programs compile this file, too.
            "super::atomic::Relaxed"
        } else {
            "kernel::sync::atomic::Relaxed"
        },
        offset: 0,
        names: Vec::new(),
        in_function: false,
        found: Found::default(),
    };

    finder.visit_file(&file);
    Ok(finder.found)
}

/// Tells whether attributes leave something out of what users get.
pub fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let text = list.tokens.to_string();
            [
                "kscale_kunit",
                "kscale_faults",
                "kscale_bench",
                "kscale_mutant",
            ]
            .iter()
            .any(|name| text.contains(name))
                && !text.starts_with("not")
        }
        _ => false,
    })
}

/// Calls for which another may be taken by mistake.
const METHODS: &[(&str, &str)] = &[
    ("min", "max"),
    ("max", "min"),
    ("wrapping_add", "wrapping_sub"),
    ("wrapping_sub", "wrapping_add"),
    ("saturating_add", "saturating_sub"),
    ("saturating_sub", "saturating_add"),
    ("checked_add", "checked_sub"),
    ("checked_sub", "checked_add"),
    ("is_some", "is_none"),
    ("is_none", "is_some"),
    ("is_ok", "is_err"),
    ("is_err", "is_ok"),
    ("any", "all"),
    ("all", "any"),
    ("and", "or"),
    ("inc", "dec"),
    ("dec", "inc"),
    ("round_up", "round_down"),
    ("to_le_bytes", "to_be_bytes"),
    ("to_be_bytes", "to_le_bytes"),
    ("from_le_bytes", "from_be_bytes"),
    ("rfind", "find"),
    ("rposition", "position"),
];

/// Orders of atomic operations that are more than the weakest.
const ORDERS: &[&str] = &["Acquire", "Release", "Full"];

/// Macros whose content is that of a struct expression.
const INITIALISERS: &[&str] = &["pin_init", "try_pin_init", "init", "try_init"];

struct Finder<'t> {
    text: &'t str,
    /// How the file calls the weakest order.
    relaxed: &'static str,
    /// Where the text that is parsed begins: not 0 within a macro.
    offset: usize,
    names: Vec<String>,
    in_function: bool,
    found: Found,
}

impl Finder<'_> {
    fn place(&self, what: &impl Spanned) -> Range<usize> {
        let bytes = what.span().byte_range();
        bytes.start + self.offset..bytes.end + self.offset
    }

    fn text_of(&self, what: &impl Spanned) -> &str {
        &self.text[self.place(what)]
    }

    fn function(&self) -> String {
        self.names.join("::")
    }

    fn add(&mut self, place: Range<usize>, form: Form, kind: &'static str, wrong: String) {
        let known = |it: &Site| it.place == place && it.wrong == wrong;
        // What an implementation has not is not linked, so it cannot be called either.
        if matches!(kind, "condition" | "operator") && self.text[place.clone()].contains("::HAS_") {
            return;
        }
        if !self.found.sites.iter().any(known) {
            self.found.sites.push(Site {
                place,
                form,
                wrong,
                kind,
                function: self.function(),
            });
        }
    }

    fn expression(&mut self, what: &impl Spanned, kind: &'static str, wrong: String) {
        let place = self.place(what);
        self.add(place, Form::Expression, kind, wrong);
    }

    /// The same expression with one part replaced.
    fn replaced(&mut self, what: &Expr, part: &impl Spanned, new: &str, kind: &'static str) {
        let place = self.place(what);
        let part = self.place(part);
        let wrong = format!(
            "{}{new}{}",
            &self.text[place.start..part.start],
            &self.text[part.end..place.end]
        );
        self.add(place, Form::Expression, kind, wrong);
    }

    fn binary(&mut self, whole: &Expr, binary: &syn::ExprBinary) {
        let other: &[&str] = match binary.op {
            BinOp::Lt(_) => &["<=", ">="],
            BinOp::Le(_) => &["<", ">"],
            BinOp::Gt(_) => &[">=", "<="],
            BinOp::Ge(_) => &[">", "<"],
            BinOp::Eq(_) => &["!="],
            BinOp::Ne(_) => &["=="],
            BinOp::Add(_) => &["-"],
            BinOp::Sub(_) => &["+"],
            BinOp::Mul(_) => &["/"],
            BinOp::Div(_) => &["*"],
            BinOp::Rem(_) => &["/"],
            BinOp::Shl(_) => &[">>"],
            BinOp::Shr(_) => &["<<"],
            BinOp::BitXor(_) => &["|"],
            BinOp::BitAnd(_) => &["|"],
            BinOp::And(_) => &["||"],
            BinOp::Or(_) => &["&&"],
            BinOp::AddAssign(_) => &["-="],
            BinOp::SubAssign(_) => &["+="],
            BinOp::MulAssign(_) => &["/="],
            BinOp::DivAssign(_) => &["*="],
            BinOp::BitXorAssign(_) => &["|="],
            BinOp::BitAndAssign(_) => &["|="],
            BinOp::BitOrAssign(_) => &["&="],
            BinOp::ShlAssign(_) => &[">>="],
            BinOp::ShrAssign(_) => &["<<="],
            _ => &[],
        };
        for op in other {
            self.replaced(whole, &binary.op, op, "operator");
        }
        let (left, right) = (
            self.text_of(&binary.left).to_string(),
            self.text_of(&binary.right).to_string(),
        );
        match binary.op {
            BinOp::BitOr(_) => {
                self.expression(whole, "flag", left);
                self.expression(whole, "flag", right);
            }
            BinOp::BitAnd(_) => self.expression(whole, "flag", left),
            _ => {}
        }
    }

    fn method(&mut self, whole: &Expr, call: &syn::ExprMethodCall) {
        let name = call.method.to_string();
        for (_, other) in METHODS.iter().filter(|(right, _)| *right == name) {
            self.replaced(whole, &call.method, other, "call");
        }
        if ["min", "max"].contains(&name.as_str()) {
            let receiver = self.text_of(&call.receiver).to_string();
            self.expression(whole, "call", receiver);
        }
        self.orders(whole, &call.args);
    }

    fn orders<'a>(&mut self, whole: &Expr, args: impl IntoIterator<Item = &'a Expr>) {
        for arg in args {
            if let Expr::Path(path) = arg {
                let last = path.path.segments.last().map(|last| last.ident.to_string());
                if last.is_some_and(|last| ORDERS.contains(&last.as_str())) {
                    // What programs of the host have in place of the kernel's is called so, too.
                    self.replaced(whole, arg, self.relaxed, "order");
                }
            }
        }
    }

    fn condition(&mut self, condition: &Expr) {
        let is_comparison = |op: &BinOp| {
            matches!(
                op,
                BinOp::Lt(_)
                    | BinOp::Le(_)
                    | BinOp::Gt(_)
                    | BinOp::Ge(_)
                    | BinOp::Eq(_)
                    | BinOp::Ne(_)
            )
        };
        match condition {
            Expr::Let(_) => {}
            Expr::Binary(binary) if is_comparison(&binary.op) => {}
            _ if has_let(condition) => {}
            _ => {
                self.expression(condition, "condition", "true".into());
                self.expression(condition, "condition", "false".into());
            }
        }
    }

    fn literal(&mut self, whole: &Expr, literal: &syn::Lit) {
        match literal {
            syn::Lit::Int(int) => {
                let Ok(value) = int.base10_parse::<u128>() else {
                    return;
                };
                let wrong = match value {
                    0 => 1,
                    1 => 0,
                    value => value + 1,
                };
                self.expression(whole, "constant", format!("{wrong}{}", int.suffix()));
            }
            syn::Lit::Bool(bool) => {
                self.expression(whole, "constant", (!bool.value).to_string());
            }
            _ => {}
        }
    }

    /// What is in a macro that makes an initialiser of something like a struct expression.
    fn initialiser(&mut self, tokens: &proc_macro2::TokenStream) {
        if self.offset != 0 || tokens.is_empty() {
            return;
        }
        let whole = self.place(tokens);
        let end = self.text[whole.clone()]
            .rfind('}')
            .map_or(whole.end, |end| whole.start + end + 1);
        // As long as it was, for places to stay the same.
        let text = self.text[whole.start..end]
            .replace("<-", ": ")
            .replace("_: {", "x: {")
            .replace("&this in ", "         ");
        if let Ok(parsed) = syn::parse_str::<syn::ExprStruct>(&text) {
            // Places in what is parsed apart count from its beginning.
            let first = parsed.path.span().byte_range().start;
            let blanks = text.len() - text.trim_start().len();
            self.offset = (whole.start + blanks).wrapping_sub(first);
            visit::visit_expr_struct(self, &parsed);
            self.offset = 0;
        }
    }

    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let name = signature.ident.to_string();
        self.names.push(name);
        let body = self.place(block);
        self.found.functions.push(Function {
            name: self.function(),
            body: body.clone(),
        });
        if signature.constness.is_none() {
            let was = std::mem::replace(&mut self.in_function, true);
            if let Some(first) = block.stmts.first() {
                let begin = self.place(first).start;
                let wrong = match &signature.output {
                    syn::ReturnType::Default => Some("return;"),
                    syn::ReturnType::Type(_, it) if self.text_of(it) == "Result" => {
                        Some("return Ok(());")
                    }
                    _ => None,
                };
                let is_empty = |it: &Stmt| only_names_arguments(it) || self.text_of(it) == "Ok(())";
                if let Some(wrong) = wrong.filter(|_| !block.stmts.iter().all(is_empty)) {
                    self.add(begin..begin, Form::Start, "body", wrong.into());
                }
            }
            visit::visit_block(self, block);
            self.in_function = was;
        }
        self.names.pop();
    }
}

/// Tells whether an expression has a `let`, which cannot be put in parentheses.
fn has_let(expression: &Expr) -> bool {
    struct Search(bool);
    impl Visit<'_> for Search {
        fn visit_expr_let(&mut self, _: &syn::ExprLet) {
            self.0 = true;
        }
        fn visit_block(&mut self, _: &syn::Block) {}
    }
    let mut search = Search(false);
    search.visit_expr(expression);
    search.0
}

/// Returns whether a statement does nothing: `let _ = (a, b);` says that arguments are not used.
fn only_names_arguments(statement: &Stmt) -> bool {
    let is_name = |it: &Expr| matches!(it, Expr::Path(_));
    match statement {
        Stmt::Local(local) if matches!(local.pat, syn::Pat::Wild(_)) => {
            local.init.as_ref().is_some_and(|init| match &*init.expr {
                Expr::Tuple(tuple) => tuple.elems.iter().all(is_name),
                it => is_name(it),
            })
        }
        _ => false,
    }
}

/// Removes the `?`s at the end of an expression, and what is around it.
fn is_call(expression: &Expr) -> bool {
    match expression {
        Expr::Try(it) => is_call(&it.expr),
        Expr::Unsafe(it) => match &it.block.stmts[..] {
            [Stmt::Expr(only, _)] => is_call(only),
            _ => false,
        },
        Expr::Call(_) | Expr::MethodCall(_) => true,
        _ => false,
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_item_mod(&mut self, it: &'a syn::ItemMod) {
        if !is_for_tests(&it.attrs) {
            self.names.push(it.ident.to_string());
            visit::visit_item_mod(self, it);
            self.names.pop();
        }
    }

    fn visit_item_fn(&mut self, it: &'a syn::ItemFn) {
        if !is_for_tests(&it.attrs) {
            self.body(&it.sig, &it.block);
        }
    }

    fn visit_impl_item_fn(&mut self, it: &'a syn::ImplItemFn) {
        if !is_for_tests(&it.attrs) {
            self.body(&it.sig, &it.block);
        }
    }

    fn visit_trait_item_fn(&mut self, it: &'a syn::TraitItemFn) {
        if let Some(block) = it.default.as_ref().filter(|_| !is_for_tests(&it.attrs)) {
            self.body(&it.sig, block);
        }
    }

    fn visit_item_impl(&mut self, it: &'a syn::ItemImpl) {
        if is_for_tests(&it.attrs) {
            return;
        }
        let last = |path: &syn::Path| path.segments.last().map(|last| last.ident.to_string());
        let of = match &*it.self_ty {
            syn::Type::Path(path) => last(&path.path),
            _ => None,
        };
        let of = of.unwrap_or_else(|| self.text_of(&it.self_ty).to_string());
        let name = match &it.trait_ {
            Some((_, path, _)) => format!("<{of} as {}>", last(path).unwrap_or_default()),
            None => of,
        };
        self.names.push(name);
        visit::visit_item_impl(self, it);
        self.names.pop();
    }

    fn visit_item_trait(&mut self, it: &'a syn::ItemTrait) {
        self.names.push(it.ident.to_string());
        visit::visit_item_trait(self, it);
        self.names.pop();
    }

    // Nothing that is computed when it is compiled.
    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'a syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'a syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'a syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'a syn::ItemEnum) {}
    fn visit_type(&mut self, _: &'a syn::Type) {}
    fn visit_pat(&mut self, _: &'a syn::Pat) {}
    fn visit_attribute(&mut self, _: &'a syn::Attribute) {}
    fn visit_generic_argument(&mut self, _: &'a syn::GenericArgument) {}
    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}

    fn visit_expr_repeat(&mut self, it: &'a syn::ExprRepeat) {
        self.visit_expr(&it.expr);
    }

    fn visit_arm(&mut self, it: &'a syn::Arm) {
        if is_for_tests(&it.attrs) {
            return;
        }
        if let Some((_, guard)) = &it.guard {
            self.condition(guard);
            self.visit_expr(guard);
        }
        self.visit_expr(&it.body);
    }

    fn visit_local(&mut self, it: &'a syn::Local) {
        if !is_for_tests(&it.attrs) {
            if let Some(init) = &it.init {
                self.visit_expr(&init.expr);
                if let Some((_, diverge)) = &init.diverge {
                    self.visit_expr(diverge);
                }
            }
        }
    }

    fn visit_stmt(&mut self, it: &'a Stmt) {
        if let Stmt::Expr(expression, Some(_)) = it {
            if is_call(expression) {
                let place = self.place(it);
                self.add(place.clone(), Form::Statement, "removed", String::new());
                if let Expr::Try(inner) = expression {
                    let call = self.text_of(&inner.expr);
                    let ignored = format!("let _ = {call};");
                    self.add(place, Form::Statement, "ignored", ignored);
                }
            }
            if matches!(expression, Expr::Assign(_)) {
                let place = self.place(it);
                self.add(place, Form::Statement, "removed", String::new());
            }
        }
        if let Stmt::Local(local) = it {
            if matches!(local.pat, syn::Pat::Wild(_)) && !only_names_arguments(it) {
                let place = self.place(it);
                self.add(place, Form::Statement, "removed", String::new());
            }
        }
        if let Stmt::Macro(it) = it {
            self.visit_macro(&it.mac);
            return;
        }
        visit::visit_stmt(self, it);
    }

    fn visit_macro(&mut self, it: &'a syn::Macro) {
        let last = it.path.segments.last().map(|last| last.ident.to_string());
        if last.is_some_and(|last| INITIALISERS.contains(&last.as_str())) && self.in_function {
            self.initialiser(&it.tokens);
        }
    }

    fn visit_expr(&mut self, it: &'a Expr) {
        if !self.in_function {
            return;
        }
        match it {
            Expr::Binary(binary) if !has_let(it) => self.binary(it, binary),
            Expr::MethodCall(call) => self.method(it, call),
            Expr::If(it) => self.condition(&it.cond),
            Expr::While(it) => {
                // For ever is left out: what it does to a test says little.
                if !has_let(&it.cond) && !matches!(*it.cond, Expr::Binary(_)) {
                    self.expression(&it.cond, "condition", "false".into());
                }
            }
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                let right = self.text_of(&unary.expr).to_string();
                self.expression(it, "operator", right);
            }
            Expr::Lit(literal) => self.literal(it, &literal.lit),
            _ => {}
        }
        visit::visit_expr(self, it);
    }
}
