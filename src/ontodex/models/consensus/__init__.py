"""`consensus`: several trained systems as one (AttentionXML, Eq. 9).

members             trained systems and their folders
member_selection    chooses members, weights and the join on dev
joins               one evidence for each label from all members
reranker            ranks the first labels again
product_regression  the logistic regression of the reranker, and of `lexical`
system              `Consensus`
"""
