import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import ts from "typescript";

const root = path.resolve(import.meta.dirname, "../..");

/** What the architecture wants to know of a source file. */
export interface SourceFile {
  /** From the root of the repository. */
  path: string;
  /** What it imports, types too, as written. */
  imports: string[];
  /** Texts of its string and template literals. */
  texts: string[];
  readsEnvironment: boolean;
  exportsAll: boolean;
}

/** The sources under these folders, specs aside. */
export function readSources(...folders: string[]): SourceFile[] {
  return folders.flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, encoding: "utf8" })
      .map((name) => path.posix.join(folder, name.split(path.sep).join("/")))
      .filter((name) => /\.(ts|mjs)$/.test(name) && !/\.spec\.ts$|\.d\.ts$/.test(name))
      .map((name) => parseSource(name, readFileSync(path.join(root, name), "utf8"))),
  );
}

/** What is in this text. */
export function parseSource(name: string, text: string): SourceFile {
  const file: SourceFile = {
    path: name,
    imports: [],
    texts: [],
    readsEnvironment: false,
    exportsAll: false,
  };
  const visit = (node: ts.Node): void => {
    const from = specifierOf(node);
    if (from !== undefined) file.imports.push(from);
    if (ts.isExportDeclaration(node) && !node.exportClause) file.exportsAll = true;
    if (ts.isStringLiteralLike(node)) file.texts.push(node.text);
    if (ts.isTemplateExpression(node)) file.texts.push(node.getText());
    if (ts.isPropertyAccessExpression(node) && node.getText() === "process.env")
      file.readsEnvironment = true;
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true));
  return file;
}

function specifierOf(node: ts.Node): string | undefined {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node))
    return textOf(node.moduleSpecifier);
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument))
    return textOf(node.argument.literal);
  if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword)
    return textOf(node.arguments[0]);
  return undefined;
}

const textOf = (node: ts.Node | undefined): string | undefined =>
  node && ts.isStringLiteralLike(node) ? node.text : undefined;
